"""The live view: events in, lines out; then a followed run with real files and signals."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from shanty.errors import FailedError
from shanty.record.events import (
    BadImage,
    Banner,
    Body,
    Ended,
    EpochDone,
    Event,
    EventLog,
    Note,
    Phase,
    Progress,
    Saved,
    Started,
    StepDone,
    StepSkipped,
    Validated,
)
from shanty.record.reader import Follower
from shanty.report.summary import Summary, read_summary, summarise
from shanty.watch import words
from shanty.watch.ending import evaluation, training
from shanty.watch.screen import Plain, Terminal, screen_for
from shanty.watch.story import Bar, Story
from shanty.watch.terminal import Interrupts, Limits, follow

BANNER = Banner(
    lines=(("model", "resnet18"), ("lr", "0.002 (0.002 x sqrt(batch / 64))")),
    epochs=2,
    steps_per_epoch=2,
    first_step=0,
)


def event(body: Body, step: int = -1, rank: int = 0, t: float = 0.0, gen: int = 0) -> Event:
    return Event(t=t, gen=gen, node="local", rank=rank, step=step, body=body)


def step(number: int, loss: float = 2.0, wall: float = 0.5) -> Event:
    done = StepDone(epoch=(number - 1) // 2, loss=loss, images=64, lr=0.1, wall=wall)
    return event(done, step=number)


def result(epoch: int, accuracy: float, weights: str = "model") -> Validated:
    return Validated(
        epoch=epoch,
        weights=weights,
        count=48,
        accuracy=accuracy,
        top5=0.9,
        log_loss=0.48,
        macro_f1=0.83,
        seconds=3.0,
    )


def epoch(number: int, accuracy: float, *, best: bool) -> list[Event]:
    path = f"checkpoints/step-{2 * number + 2:08d}"
    saved = Saved(path=path, epoch=number, best=best, bytes=9, seconds=0.1)
    done = EpochDone(epoch=number, loss=1.2, images=128, bad=0, seconds=41.0)
    bodies = (
        Phase(name="validating"),
        done,
        result(number, accuracy),
        Phase(name="saving"),
        saved,
        Phase(name="training"),
    )
    return [event(body, step=2 * number + 2) for body in bodies]


def run_of_two_epochs() -> list[Event]:
    started = [event(Started(wall=0, pid=r, host="h", world_size=2), rank=r) for r in (0, 1)]
    first = [step(1), step(2), *epoch(0, 0.847, best=True)]
    second = [step(3, wall=0.25), step(4, wall=0.25), *epoch(1, 0.5, best=False)]
    return [*started, event(BANNER), *first, *second, event(Ended(exit_code=0))]


def test_golden_text_of_a_run() -> None:
    assert Story("runs/a").take(run_of_two_epochs()) == [
        "model  resnet18",
        "lr     0.002 (0.002 x sqrt(batch / 64))",
        "epoch 1/2  loss 1.200  acc 84.7 %  log loss 0.480  f1 0.830  0:41  best",
        "epoch 2/2  loss 1.200  acc 50.0 %  log loss 0.480  f1 0.830  256 img/s  0:41",
    ]


def test_the_lines_do_not_depend_on_how_events_arrive() -> None:
    story, lines = Story("runs/a"), list[str]()
    for one in run_of_two_epochs():
        lines += story.take([one])
    assert lines == Story("runs/a").take(run_of_two_epochs())


def test_a_wide_epoch_line_leaves_out_the_rate_then_f1() -> None:
    done = EpochDone(epoch=98, loss=1.2, images=1, bad=0, seconds=36000.0)
    line = words.epoch(done, result(98, 1.0), (1000, 12345.0), best=True)
    assert line == "epoch   99/1000  loss 1.200  acc 100.0 %  log loss 0.480  10:00:00  best"


def test_an_epoch_without_validation() -> None:
    story = Story("runs/a")
    done = EpochDone(epoch=9, loss=0.5, images=10, bad=0, seconds=3700.0)
    banner = Banner(lines=(), epochs=10, steps_per_epoch=2, first_step=0)
    assert story.take([event(banner), event(done)]) == []
    assert story.flush() == ["epoch 10/10  loss 0.500  1:01:40"]
    assert story.flush() == []


def test_progress_line() -> None:
    story = Story("runs/a")
    story.take([event(BANNER), step(1, loss=2.5)])
    assert story.bar() == Bar(
        done=1, total=4, text="epoch 1/2  step 1/2  loss 2.500  128 img/s  left 0:02"
    )
    story.take([step(2, loss=float("nan"))])  # a loss that was not read leaves the last one
    assert story.bar().text == "epoch 1/2  step 2/2  loss 2.500  128 img/s  left 0:01"


def test_time_left_takes_the_median_step_and_the_validations() -> None:
    story = Story("runs/a")
    banner = Banner(lines=(), epochs=3, steps_per_epoch=3, first_step=0)
    slow = [step(1, wall=60.0), step(2, wall=1.0), step(3, wall=1.0)]
    story.take([event(banner), *slow, event(result(0, 0.5))])
    assert story.pace.seconds_left() == 6 * 1.0 + 2 * 3.0


def test_progress_after_a_resume_counts_from_where_it_began() -> None:
    story = Story("runs/a")
    banner = Banner(lines=(), epochs=2, steps_per_epoch=2, first_step=3)
    story.take([event(banner), step(4)])
    assert (story.bar().done, story.bar().total) == (4, 4)


def test_validation_and_saving_are_shown() -> None:
    story = Story("runs/a")
    story.take([event(BANNER), step(1), event(Phase(name="saving"))])
    assert story.bar().text.endswith("  saving")
    story.take([event(Progress(done=640, total=2000, what="validating"))])
    assert story.bar() == Bar(done=640, total=2000, text="validating 640/2,000")
    story.take([step(2)])
    assert story.bar().text.startswith("epoch 1/2  step 2/2")


def test_waiting_names_who_does_what() -> None:
    story = Story("runs/a")
    assert story.waiting(20) == "still starting: no rank has begun yet (20 s)"
    story.take([event(Started(wall=0, pid=1, host="h", world_size=4, what="agent"), rank=-1)])
    assert story.waiting(20) == "still starting: rank 0-3 importing torch (20 s)"
    phases = [event(Phase(name="joining"), rank=r) for r in (0, 2)]
    story.take(phases)
    assert story.waiting(40) == (
        "still starting: rank 0 and 2 joining, rank 1 and 3 importing torch (40 s)"
    )
    assert story.bar().text == "starting: rank 0 and 2 joining, rank 1 and 3 importing torch"
    training = [event(Phase(name="training"), rank=r) for r in range(4)]
    story.take([*training, event(Phase(name="validating")), event(BANNER), step(1)])
    assert story.waiting(60) == "waiting: rank 0 validating, rank 1-3 training (60 s)"


def test_a_bad_image_is_told_once_though_every_rank_tells_it() -> None:
    bad = BadImage(path="a/b.jpg", reason="cut short", use="train")
    story = Story("runs/a")
    assert story.take([event(bad, rank=r) for r in (0, 1, 2)]) == [
        "bad image left out (train): a/b.jpg: cut short"
    ]


def test_many_bad_images_are_cut_short() -> None:
    bad = [event(BadImage(path=f"{n}.jpg", reason="empty", use="train")) for n in range(20)]
    lines = Story("runs/a").take(bad)
    assert len(lines) == 6
    assert lines[-1] == "more bad images: counted at the end, listed in runs/a/events"


def test_a_skipped_step_is_told_by_the_rank_that_was_not_finite() -> None:
    empty = StepSkipped(epoch=0, where=("rank 1",), files=())
    named = StepSkipped(epoch=0, where=("rank 1",), files=("a.jpg", "b.jpg", "c.jpg", "d.jpg"))
    lines = Story("runs/a").take([event(empty, step=7), event(named, step=7, rank=1)])
    assert lines == [
        "step 7 skipped on all ranks: not finite on rank 1; images: a.jpg, b.jpg, c.jpg …",
        "  and 1 more",
    ]
    gradient = StepSkipped(epoch=0, where=("the gradient",), files=())
    assert Story("runs/a").take([event(gradient, step=8)]) == [
        "step 8 skipped on all ranks: not finite on the gradient"
    ]


def test_notes_are_told_once_and_warnings_with_their_node() -> None:
    note, warning = Note(text="calm"), Note(text="disk is nearly full", level="warning")
    events = [event(body, rank=r) for body in (note, warning) for r in (0, 1)]
    assert Story("x").take(events) == ["note: calm", "warning: local: disk is nearly full"]


def test_no_line_is_wider_than_a_terminal() -> None:
    banner = Banner(lines=(("label", "word " * 60),), epochs=1000, steps_per_epoch=2, first_step=0)
    note = Note(text="word " * 60)
    bad = BadImage(path="p" * 30, reason="why " * 40, use="train")
    lines = Story("runs/a").take([event(b) for b in (banner, note, bad)])
    assert max(map(len, lines)) <= 80


def test_summary_of_a_run() -> None:
    summary = summarise(run_of_two_epochs())
    assert summary.epochs == 2
    assert summary.best is not None
    assert summary.best.path == "checkpoints/step-00000002"
    assert summary.best_result == result(0, 0.847)
    assert training(summary, "runs/a", 0) == [
        "best:        acc 84.7 %  log loss 0.480  f1 0.830  (epoch 1, model weights)",
        "checkpoint:  runs/a/checkpoints/step-00000002/model.safetensors",
        "run:         runs/a",
        "next:        shanty predict runs/a IMAGES -o submission.csv",
    ]


def test_summary_names_the_file_of_the_averaged_weights_and_what_was_left_out() -> None:
    saved = Saved(path="checkpoints/step-00000002", epoch=0, best=True, bytes=1, seconds=0.1)
    skip = StepSkipped(epoch=0, where=("rank 0",), files=())
    bad = [event(BadImage(path=f"{n}.jpg", reason="", use="train")) for n in range(7)]
    events = [event(result(0, 0.5, "ema")), event(saved), event(skip, step=3), *bad]
    assert training(summarise(events), "my runs/a", 130) == [
        "best:        acc 50.0 %  log loss 0.480  f1 0.830  (epoch 1, ema weights)",
        "checkpoint:  my runs/a/checkpoints/step-00000002/ema.safetensors",
        "left out:    7 images: 0.jpg, 1.jpg, 2.jpg, 3.jpg, 4.jpg … and 2 more; all: my",
        "             runs/a/events",
        "skipped:     1 step with a loss that was not finite: 3",
        "run:         my runs/a",
        "resume with: shanty train --resume 'my runs/a'",
    ]


def test_summary_of_nothing() -> None:
    assert training(Summary(), "runs/a", 0) == ["run:         runs/a"]
    assert evaluation(Summary(), "runs/a") == ["nothing was measured; see runs/a/logs"]


def test_a_redone_epoch_counts_once_and_the_newer_start_wins() -> None:
    first, again = event(result(0, 0.4), t=50.0), event(result(0, 0.6), t=1.0, gen=1)
    assert summarise([again, first]).results == (result(0, 0.6),)


def test_summary_from_files_passes_over_steps_and_torn_lines(tmp_path: Path) -> None:
    with EventLog(tmp_path / "rank-0000.jsonl", node="n", rank=0, gen=0) as log:
        for one in run_of_two_epochs():
            log.write(one.body, one.step)
        log.write(BadImage(path="line\u2028end.jpg", reason="x", use="train"))
    with (tmp_path / "rank-0000.jsonl").open("a") as file:
        file.write('{"kind": "Saved", "t": 1')
    summary = read_summary(tmp_path)
    assert len(summary.results) == 2
    assert [b.path for b in summary.bad] == ["line\u2028end.jpg"]


def test_plain_screen_has_no_control_codes_and_few_progress_lines() -> None:
    out = io.StringIO()
    screen = Plain(out, every=0.05)
    screen.show(["one"])
    for count in range(100):
        screen.move(Bar(done=count, total=100, text=f"at {count}"))
    assert out.getvalue() == "one\n"
    time.sleep(0.06)
    screen.move(Bar(done=0, total=0, text="starting"))
    screen.move(Bar(done=7, total=100, text="at 7"))
    screen.move(Bar(done=8, total=100, text="at 8"))
    assert out.getvalue() == "one\nat 7\n"


def test_terminal_screen_draws_and_leaves_the_lines_whole() -> None:
    out = io.StringIO()
    screen = Terminal(Console(file=out, force_terminal=True, width=40, highlight=False))
    path = "left out [bold]: " + "x" * 60
    screen.move(Bar(done=1, total=4, text="step 1/4"))
    screen.show([path])
    screen.close()
    assert "step 1/4" in out.getvalue()
    assert path in out.getvalue()


def test_a_pipe_gets_plain_lines_and_quiet_gets_none() -> None:
    out = io.StringIO()
    screen_for(out).show(["a"])
    quiet = screen_for(out, quiet=True)
    quiet.show(["b"])
    quiet.move(Bar(done=1, total=2, text="c"))
    assert out.getvalue() == "a\n"


# A real process that writes real event files, as a worker would; SIGTERM makes it save and end.
WORKER = """
import signal, sys, time
from pathlib import Path
from shanty.record.events import Ended, EventLog, Phase, Saved
mode, folder = sys.argv[1], Path(sys.argv[2])
wanted = []
signal.signal(signal.SIGTERM, lambda *_: wanted.append(1))
(folder / "ready").touch()
if mode == "mute":
    time.sleep(60)
with EventLog(folder / "rank-0000.jsonl", node="local", rank=0, gen=0) as log:
    log.write(Phase(name="joining"))
    while mode != "short" and (mode == "deaf" or not wanted):
        time.sleep(0.01)
    log.write(Saved(path="c", epoch=0, best=False, bytes=1, seconds=0.1))
    log.write(Ended(exit_code=130 if wanted else 0))
sys.exit(130 if wanted else 0)
"""


@dataclass
class RealRun:
    """A process and its event files, followed as a session is."""

    process: subprocess.Popen[bytes]
    follower: Follower
    asked: list[str] = field(default_factory=list)
    can_be_killed: bool = True

    def poll(self) -> list[Event]:
        return self.follower.poll()

    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        self.asked.append("stop")
        self.process.terminate()

    def kill(self) -> None:
        self.asked.append("kill")
        if self.can_be_killed:
            self.process.kill()

    def outcome(self) -> int:
        return self.process.wait()


def begin(folder: Path, mode: str) -> RealRun:
    process = subprocess.Popen([sys.executable, "-c", WORKER, mode, str(folder)])
    while not (folder / "ready").exists():
        time.sleep(0.01)
    return RealRun(process=process, follower=Follower(folder))


def press(times: int, after: float) -> list[threading.Timer]:
    """Ctrl-C to ourselves, ``after`` seconds apart."""
    timers = [
        threading.Timer(after * n, os.kill, (os.getpid(), signal.SIGINT))
        for n in range(1, times + 1)
    ]
    for timer in timers:
        timer.start()
    return timers


def watch(run: RealRun, limits: Limits) -> tuple[int, str]:
    out = io.StringIO()
    with Interrupts().counted() as interrupts:
        code = follow(run, Story("runs/a"), Plain(out), interrupts, limits)
    return code, out.getvalue()


def test_follow_to_the_end(tmp_path: Path) -> None:
    code, text = watch(begin(tmp_path, "short"), Limits(poll=0.01))
    assert (code, text) == (0, "")


def test_silence_is_spoken_about(tmp_path: Path) -> None:
    press(1, 0.5)
    code, text = watch(begin(tmp_path, "long"), Limits(poll=0.01, silence=0.1))
    assert code == 130
    assert "still starting: rank 0 joining (0 s)" in text or "no rank has begun yet" in text


def test_one_ctrl_c_stops_politely(tmp_path: Path) -> None:
    run = begin(tmp_path, "long")
    press(1, 0.2)
    code, text = watch(run, Limits(poll=0.01))
    assert (code, run.asked) == (130, ["stop"])
    assert text == "stopping: saving a checkpoint ... (Ctrl-C again: end at once)\n"


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    run = begin(tmp_path, "deaf")
    press(2, 0.2)
    code, text = watch(run, Limits(poll=0.01))
    assert (code, run.asked) == (-signal.SIGKILL, ["stop", "kill"])
    assert text.endswith("ending at once\n")


def test_a_run_that_does_not_stop_is_ended(tmp_path: Path) -> None:
    run = begin(tmp_path, "deaf")
    press(1, 0.1)
    with pytest.raises(FailedError, match="did not stop within 0 s") as caught:
        watch(run, Limits(poll=0.01, stop=0.3))
    assert caught.value.hint == "read what the processes printed: runs/a/logs"
    assert not run.alive()


def test_a_run_without_a_sign_of_life_is_ended(tmp_path: Path) -> None:
    run = begin(tmp_path, "mute")
    with pytest.raises(FailedError, match="no sign of life"):
        watch(run, Limits(poll=0.01, start=0.3))
    assert run.asked == ["kill"]


def test_a_run_that_cannot_be_ended_is_left_with_a_word(tmp_path: Path) -> None:
    run = begin(tmp_path, "deaf")
    run.can_be_killed = False
    press(2, 0.1)
    try:
        with pytest.raises(FailedError, match="the run does not end"):
            watch(run, Limits(poll=0.01, kill=0.2))
    finally:
        run.process.kill()
        run.outcome()


def test_ctrl_c_means_its_old_self_again_afterwards(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    watch(begin(tmp_path, "short"), Limits(poll=0.01))
    assert signal.getsignal(signal.SIGINT) is before
