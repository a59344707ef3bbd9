"""One rank of a training: ``python -m shanty.train.worker RUN/run.json``.

Started by shanty's agent, torchrun, mpirun or srun; each leaves the rank in other variables.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from shanty.comm.world import World, join
from shanty.data.decode import check_rules
from shanty.data.decode import describe as decoder
from shanty.errors import RefusedError, UsageError
from shanty.record.atomic import read_json
from shanty.record.events import Note, Phase
from shanty.record.rundir import RunDir
from shanty.scan.dataset import DataSet
from shanty.spec.codec import from_dict, to_dict
from shanty.spec.run import TrainSpec, read_spec
from shanty.train import checkpoint
from shanty.train.banner import banner
from shanty.train.buffers import batch_norms
from shanty.train.evaluate import Exam, Measured, Watch, evaluate
from shanty.train.feed import Feed, Threads, pick_threads
from shanty.train.infer import Network, my_share
from shanty.train.loop import Job, train
from shanty.train.parts import Parts, assemble
from shanty.train.process import Process, entry, run_rank
from shanty.train.saving import Saver
from shanty.train.say import Voice
from shanty.train.state import TrainState, restore
from shanty.train.step import Stepper


def main(spec_path: Path) -> int:
    """Run one rank to its end; returns the exit code."""
    rundir = RunDir(spec_path.resolve().parent)
    spec = read_spec(TrainSpec, spec_path)
    return run_rank(rundir, spec.generation, partial(work, rundir, spec))


def work(rundir: RunDir, spec: TrainSpec, process: Process) -> dict[str, Any]:
    """Join the others, build everything, train, leave. Returns what the run came to."""
    config, log = spec.config, process.log
    data = read_data(rundir)
    if process.place.world_size > len(data.train):
        raise RefusedError(
            f"{process.place.world_size} ranks, but only {len(data.train)} training images",
            hint=f"use --nproc {len(data.train)} or less",
        )
    log.write(Phase(name="joining"))
    world = join(
        process.place,
        device=config.device,
        timeout=config.sync.timeout,
        generation=spec.generation,
    )
    threads = pick_threads(world, spec.threads, config.data.threads)
    torch.set_num_threads(threads.compute)
    log.write(Phase(name="building"))
    job = build_job(rundir, spec, data, world, (process, threads))
    state = begin(rundir, spec, job)
    job.log.write(banner(spec, job, data, threads, state))
    warn_of_single_images(job)
    state = train(job, state)
    job.feed.close()
    world.leave()
    return to_dict(state)


def warn_of_single_images(job: Job) -> None:
    """Say it when BatchNorm will never see two images at once."""
    parts = job.parts
    if parts.config.micro_batch == 1 and batch_norms(parts.model) and parts.world.rank == 0:
        text = "micro_batch is 1: BatchNorm keeps the statistics it began with"
        job.log.write(Note(text=text, level="warning"))


def read_data(rundir: RunDir) -> DataSet:
    """The data set that the scan wrote beside the order."""
    try:
        return from_dict(DataSet, read_json(rundir.data))
    except OSError as error:
        raise UsageError(
            f"no data list at {rundir.data}: {error.strerror}",
            hint="make the run's folder with shanty train DATA --out DIR --prepare",
        ) from error


def build_job(
    rundir: RunDir,
    spec: TrainSpec,
    data: DataSet,
    world: World,
    own: tuple[Process, Threads],
) -> Job:
    """All live objects of this rank."""
    process, threads = own
    config = spec.config
    parts = assemble(config, len(data.classes), world, resume=spec.resume)
    feed = Feed(data, config, world, decode_threads=threads.decode)
    stepper = Stepper(
        parts,
        feed.labels(),
        total_steps=feed.total_steps,
        warmup_steps=round((config.schedule.warmup or 0.0) * feed.steps_per_epoch),
    )
    voice = Voice(process.log, feed, world, "ema" if parts.ema else "model")
    exam = Exam(root=data.root, samples=data.val, config=config, threads=threads.evaluate)
    return Job(
        parts=parts,
        feed=feed,
        stepper=stepper,
        saver=Saver(rundir, parts, about(spec, data, parts), process.log),
        voice=voice,
        log=process.log,
        stopping=process.stopping,
        validate=partial(validate, parts, exam, voice, process),
    )


def about(spec: TrainSpec, data: DataSet, parts: Parts) -> dict[str, Any]:
    """What a checkpoint must say so that it is usable without anything else."""
    train = torch.tensor([s.label for s in data.train], dtype=torch.int64)
    return {
        "run_id": spec.run_id,
        "classes": list(data.classes),
        "prior": (torch.bincount(train, minlength=len(data.classes)) / len(train)).tolist(),
        "config": to_dict(spec.config),
        "norm": to_dict(parts.norm),
        "amp": parts.precision.amp,
        "device": parts.world.device.type,
        "channels_last": parts.precision.channels_last,
        "images": decoder(),
        "digest": data.digest,
        "versions": spec.versions | {"torch": torch.__version__},
    }


def validate(
    parts: Parts, exam: Exam, voice: Voice, process: Process, _epoch: int
) -> Measured | None:
    """Measure the weights that will be announced: the averaged ones where there are any."""
    voice.start_validation()
    network = Network(
        model=parts.model,
        norm=parts.norm,
        precision=parts.precision,
        classes=parts.classes,
    )
    total = my_share(len(exam.samples), exam.config.validate.batch, parts.world)
    watch = Watch(on_progress=process.progress("validating", total), should_stop=process.stopping)
    if parts.ema:
        parts.ema.swap()
    try:
        return evaluate(network, exam, parts.world, watch)
    finally:
        if parts.ema:
            parts.ema.swap()
        parts.set_training()


def refuse_second_start(rundir: RunDir) -> None:
    """A launcher that starts its line again (Slurm does) must not write over what is there.

    Raises:
        RefusedError: the folder holds checkpoints, and the order is not to resume.
    """
    if any(rundir.checkpoints.glob("step-*")):
        raise RefusedError(
            f"{rundir.root} holds checkpoints of an earlier start",
            hint=f"continue it: shanty train --resume {rundir.root} --prepare, then the same line",
        )


def begin(rundir: RunDir, spec: TrainSpec, job: Job) -> TrainState:
    """The state to start from: nothing, or the newest complete checkpoint.

    Raises:
        RefusedError: resuming, and there is no complete checkpoint.
    """
    if not spec.resume:
        refuse_second_start(rundir)
        job.saver.check_space()
        return TrainState()
    found, skipped = checkpoint.newest(rundir)
    for line in skipped:
        job.log.write(Note(text=f"{line}; using an older one", level="warning"))
    if found is None:
        raise RefusedError(
            f"{rundir.root} has no complete checkpoint to resume from",
            hint="start anew with another --out",
        )
    for line in check_rules(found.meta["images"], rundir.root.name):
        job.log.write(Note(text=line, level="warning"))
    return restore(job.parts, found)


if __name__ == "__main__":
    sys.exit(entry("shanty.train.worker", main, sys.argv))
