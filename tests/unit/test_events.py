"""Events: every kind there and back, whole lines only, many files read as one story."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from shanty.record.events import (
    KINDS,
    BadImage,
    Banner,
    Ended,
    EpochDone,
    Event,
    EventLog,
    Failed,
    Note,
    Phase,
    Progress,
    Saved,
    Started,
    StepDone,
    StepSkipped,
    Validated,
    WorkerExit,
    from_line,
)
from shanty.record.reader import Follower, parse, read_all
from shanty.record.rundir import RunDir

ODD = '고양이\u2028\u0085\n\t\udcff\\".png'  # a name that a disk may hold, not valid UTF-8
ENVELOPE = {"kind", "t", "gen", "node", "rank", "step"}
BODIES = [
    Started(wall=1.7e9, pid=7, host="n1", world_size=3),
    Phase(name="training"),
    Banner(lines=(("batch", "64"), ("lr", "0.1")), epochs=2, steps_per_epoch=3, first_step=4),
    StepDone(epoch=1, loss=float("inf"), images=64, lr=0.1, wall=0.5, data=0.25),
    StepSkipped(epoch=0, where=("n1 rank 1",), files=(ODD,)),
    BadImage(path=ODD, reason="truncated", use="training"),
    EpochDone(epoch=0, loss=1.5, images=640, bad=1, seconds=3.0),
    Validated(
        epoch=0, weights="ema", count=9, accuracy=1.0, top5=1.0, log_loss=0.1, macro_f1=1.0,
        seconds=0.5,
    ),
    Saved(path="checkpoints/step-00000001", epoch=0, best=True, bytes=12, seconds=0.1),
    Progress(done=3, total=9, what="predicting"),
    Note(text="hello", level="warning"),
    Failed(error={"error": "FailedError", "what": ODD, "rank": None}, trace="crash.txt"),
    Ended(exit_code=0, result={"best": {"accuracy": 0.5}}),
    WorkerExit(worker=0, pid=7, code=-9, signal="SIGKILL"),
]  # fmt: skip


def event(body: Any, t: float = 12.5, gen: int = 1, rank: int = 2) -> Event:
    return Event(t=t, gen=gen, node="n1", rank=rank, step=480, body=body)


def write_log(path: Path, *texts: str) -> None:
    with EventLog(path, node="n1", rank=0, gen=0) as log:
        for text in texts:
            log.write(Note(text=text))


def texts_of(events: list[Event]) -> list[str]:
    return [e.body.text for e in events if isinstance(e.body, Note)]


def test_there_is_a_sample_of_every_kind_here() -> None:
    assert {type(b).__name__ for b in BODIES} == set(KINDS)


@pytest.mark.parametrize("body", BODIES, ids=lambda b: type(b).__name__)
def test_an_event_is_one_line_there_and_back(body: Any) -> None:
    line = event(body).to_line()
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert from_line(line) == event(body)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_no_body_hides_a_part_of_the_envelope(kind: Any) -> None:
    assert not ENVELOPE & {f.name for f in fields(kind)}


def test_korean_names_are_readable_in_the_file(tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", "고양이")
    assert "고양이".encode() in (tmp_path / "a.jsonl").read_bytes()


def test_names_that_are_not_utf8_come_back_to_the_byte(tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", ODD)
    assert b"\xff" in (tmp_path / "a.jsonl").read_bytes()
    assert texts_of(read_all(tmp_path)) == [ODD]


def foreign_lines() -> list[str]:
    known = json.loads(event(Note(text="x")).to_line())
    return [
        "",
        "not json",
        "[]",
        "3",
        "null",
        '"Note"',
        "{}",
        '{"kind": "Note"}',
        '{"kind": ["Note"]}',
        '{"kind": {"Note": 1}}',
        '{"kind": "Reformed", "t": 1, "gen": 0, "node": "n", "rank": 0, "step": 1}',
        json.dumps(known | {"of_a_newer_version": 1}),
        json.dumps({k: v for k, v in known.items() if k != "text"}),
        json.dumps({k: v for k, v in known.items() if k != "t"}),
        event(Note(text="x")).to_line()[:-4],
    ]


@pytest.mark.parametrize("line", foreign_lines())
def test_a_torn_or_foreign_line_is_no_event(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own words, or ours
        from_line(line)


def test_torn_and_foreign_lines_are_passed_over_and_the_rest_is_read() -> None:
    first, last = event(Note(text="first")), event(Note(text="last"))
    text = first.to_line() + "\n".join(foreign_lines()) + "\n" + last.to_line()
    assert parse(text) == [first, last]


def test_a_restarted_writer_goes_on_after_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "rank-0000.jsonl"
    write_log(path, "before")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"kind": "Note", "t": 1')  # killed here
    write_log(path, "after", "more")
    assert texts_of(read_all(tmp_path)) == ["before", "after", "more"]
    write_log(path, "third start")
    assert path.read_bytes().count(b"\n") == 5, "a whole file gets no empty line"


def test_an_event_is_stamped_with_its_place_and_the_monotonic_clock(tmp_path: Path) -> None:
    before = time.monotonic()
    with EventLog(tmp_path / "deep" / "a.jsonl", node="n2", rank=3, gen=4) as log:
        log.write(Phase(name="joining"))
        log.write(Phase(name="training"), 17)
    first, second = read_all(tmp_path / "deep")
    assert (first.node, first.rank, first.gen, first.step) == ("n2", 3, 4, -1)
    assert second.step == 17
    assert before - 1e-5 <= first.t <= second.t <= time.monotonic()


def test_an_event_can_be_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with EventLog(tmp_path / "a.jsonl", node="n", rank=0, gen=0) as log:
        log.write(Note(text="now"))
        assert texts_of(read_all(tmp_path)) == ["now"]


def test_several_files_are_read_as_one_story_in_order_of_time(tmp_path: Path) -> None:
    logs = [EventLog(tmp_path / f"rank-{r}.jsonl", node="n", rank=r, gen=0) for r in range(2)]
    for number in range(6):
        logs[number % 2].write(Note(text=str(number)))
        time.sleep(0.002)
    for log in logs:
        log.close()
    assert texts_of(read_all(tmp_path)) == list("012345")


def test_an_older_start_comes_first_whatever_its_clock_says(tmp_path: Path) -> None:
    lines = [
        event(Note(text="second start"), t=3.0, gen=1).to_line(),  # the machine was restarted
        event(Note(text="first start"), t=900.0, gen=0).to_line(),
    ]
    for number, line in enumerate(lines):
        (tmp_path / f"{number}.jsonl").write_text(line)
    assert texts_of(read_all(tmp_path)) == ["first start", "second start"]


def test_a_follower_returns_each_event_once_and_waits_for_whole_lines(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    assert follower.poll() == []
    path = tmp_path / "a.jsonl"
    first, second = (event(Note(text=t)).to_line().encode() for t in ("one", "둘"))
    path.write_bytes(first + second[:-4])  # cut inside a letter of three bytes
    assert texts_of(follower.poll()) == ["one"]
    assert follower.poll() == []
    with path.open("ab") as file:
        file.write(second[-4:])
    write_log(tmp_path / "b.jsonl", "another file")
    assert sorted(texts_of(follower.poll())) == ["another file", "둘"]
    assert follower.poll() == []


def test_a_follower_from_the_end_leaves_the_past_out(tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", "old")
    follower = Follower(tmp_path, from_end=True)
    write_log(tmp_path / "a.jsonl", "new")
    write_log(tmp_path / "b.jsonl", "new file")
    assert texts_of(follower.poll()) == ["new", "new file"]


def test_only_event_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(event(Note(text="no")).to_line())
    assert read_all(tmp_path) == []
    assert read_all(tmp_path / "missing") == []


WRITER = """
import sys
from pathlib import Path
from shanty.record.events import EventLog, Note
with EventLog(Path(sys.argv[1]), node="n", rank=0, gen=0) as log:
    for number in range(10**9):
        log.write(Note(text=f"{number} " + "x" * 20000))
        if number == 50:
            print("ready", flush=True)
"""


def test_a_killed_writer_leaves_nothing_torn_but_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=-1) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == b"ready\n"
        writer.send_signal(signal.SIGKILL)
    numbers = [int(t.split()[0]) for t in texts_of(read_all(tmp_path))]
    assert len(numbers) > 50
    assert numbers == list(range(len(numbers)))
    assert path.read_bytes().count(b"\n") == len(numbers)


def test_every_path_of_a_run_lies_inside_its_folder(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    assert not run.exists()
    run.make()
    paths = [
        run.spec, run.data, run.summary, run.agent_pid, run.plan, run.pointer("best"),
        run.rank_events(3), run.agent_events("n1"), run.rank_log("n1", 3), run.agent_log("n1"),
        run.checkpoints,
    ]  # fmt: skip
    assert len(set(paths)) == len(paths)
    for path in paths:
        assert path.is_relative_to(run.root)
        assert path.parent.is_dir()
    run.spec.write_text("{}")
    assert run.exists()


def test_plain_data_in_an_event_is_json_and_nothing_else() -> None:
    for body in BODIES:
        assert json.loads(json.dumps(asdict(body)))
