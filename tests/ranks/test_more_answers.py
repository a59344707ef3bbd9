"""Validation against a plain loop, and predictions by name, in the template's order."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from crew import events, make_photos, prepare, run_ranks, start_ranks, train
from shanty.comm.place import Place
from shanty.comm.world import World
from shanty.data.views import EvalView, read_eval
from shanty.errors import RefusedError
from shanty.predict.load import load_run
from shanty.predict.worker import work
from shanty.record.atomic import read_json, write_json
from shanty.record.events import EventLog, Validated
from shanty.record.rundir import RunDir
from shanty.scan.dataset import DataSet
from shanty.scan.training import scan_labelled
from shanty.spec.codec import from_dict, to_dict
from shanty.spec.config import (
    DataConfig,
    ModelConfig,
    OptimConfig,
    PrecisionConfig,
    RunConfig,
    ValidateConfig,
)
from shanty.spec.run import PredictSpec
from shanty.task.predict_prepare import run as plan
from shanty.train import checkpoint
from shanty.train.build import create, norm_of
from shanty.train.evaluate import Exam, Watch, evaluate
from shanty.train.infer import Network
from shanty.train.precision import pick_precision
from shanty.train.process import Process

COLOURS = {"1": (210, 60, 50), "2": (60, 200, 70), "10": (50, 70, 210)}


def network() -> Network:
    model = create(ModelConfig(name="test_resnet"), 3, 0, 32)
    precision = pick_precision(PrecisionConfig(), torch.device("cpu"))
    return Network(
        model=precision.place(model), norm=norm_of(model), precision=precision, classes=3
    )


def measured(world: World, data: DataSet) -> dict[str, Any]:
    config = RunConfig(data=DataConfig(size=32), validate=ValidateConfig(batch=8))
    exam = Exam(root=data.root, samples=data.val, config=config, threads=2)
    watch = Watch(on_progress=lambda _: None, should_stop=lambda: False)
    found = evaluate(network(), exam, world, watch)
    assert found
    return to_dict(found.metrics)


def by_hand(_world: World, data: DataSet) -> tuple[int, float]:
    """Right answers and summed log loss, one image after the other."""
    net, right, loss = network(), 0, 0.0
    for sample in data.val:
        pixels = read_eval(Path(data.root) / sample.path, EvalView(size=32, crop=0.95))
        with torch.inference_mode():
            out = net.model.eval()(net.precision.pixels(torch.from_numpy(pixels[None]), net.norm))
        right += int(out.argmax()) == sample.label
        loss -= float(torch.log_softmax(out.double(), 1)[0, sample.label])
    return right, loss


def test_101_images_in_batches_of_8_give_what_a_plain_loop_gives_for_1_to_4_ranks(
    tmp_path: Path,
) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 40, "b": 33, "c": 28}, seed=3)
    data = scan_labelled(photos, ("a", "b", "c"))
    right, loss = run_ranks(1, by_hand, data)[0]
    assert 0 < right < 101
    answers = [run_ranks(ranks, measured, data) for ranks in (1, 2, 3, 4)]
    for ranks in answers:
        assert all(answer == answers[0][0] for answer in ranks)
    assert answers[0][0]["count"] == 101
    assert answers[0][0]["accuracy"] == right / 101
    assert answers[0][0]["log_loss"] == pytest.approx(loss / 101, rel=1e-5)


def paint(file: Path, name: str, seed: int) -> None:
    noise = np.random.default_rng(seed).integers(-40, 40, (36, 36, 3))
    pixels = np.clip(np.array(COLOURS[name]) + noise, 0, 255).astype(np.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file)


def predict_rank(place: Place, root: Path) -> dict[str, Any]:
    spec = from_dict(PredictSpec, read_json(RunDir(root).spec))
    log = EventLog(RunDir(root).rank_events(place.rank), node="local", rank=place.rank, gen=0)
    return work(spec, Process(place, log))


def predict(folder: Path, runs: list[RunDir], template: Path, ranks: int) -> list[list[str]]:
    """The rows that the runs give for ``folder/test``."""
    job = RunDir(folder / f"job-{template.stem}-{'-'.join(r.root.name for r in runs)}")
    job.make()
    request = {
        "images": str(folder / "test"), "template": str(template), "which": "best",
        "out": str(job.root / "out.csv"), "runs": [str(r.root) for r in runs], "force": False,
        "layout": str(job.root / "layout.json"),
    }  # fmt: skip
    answer = plan(request)
    spec = PredictSpec(
        run_id="job", rundir=str(job.root), runs=tuple(request["runs"]), root=answer["root"],
        layout=request["layout"], out=request["out"], threads=1, device="cpu",
    )  # fmt: skip
    write_json(job.spec, to_dict(spec))
    start_ranks(ranks, predict_rank, job.root)
    return list(csv.reader(Path(request["out"]).read_text("utf-8").splitlines()))


@pytest.fixture(scope="module")
def contest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[RunDir], dict[str, str]]:
    """Classes 1, 10 and 2, two runs that know them, and 30 test images without any of class 1."""
    folder = tmp_path_factory.mktemp("contest")
    for name in COLOURS:
        for number in range(24):
            paint(folder / "photos" / name / f"{number}.png", name, number)
    runs = []
    for seed in (0, 1):
        config = RunConfig(
            epochs=4,
            batch=8,
            seed=seed,
            model=ModelConfig(name="test_resnet"),
            data=DataConfig(size=32, val_fraction=0.25),
            optim=OptimConfig(lr=0.01),
        )
        runs.append(prepare(folder / "photos", folder / f"run{seed}", config))
        train(runs[-1], 1)
        assert events(runs[-1], Validated)[-1].body.accuracy == 1
    truth = {str(number): "10" if number % 3 else "2" for number in range(1, 31)}
    for name, label in truth.items():
        paint(folder / "test" / f"{name}.png", label, 100 + int(name))
    return folder, runs, truth


def test_answers_are_names_in_the_templates_order(
    contest: tuple[Path, list[RunDir], dict[str, str]],
) -> None:
    folder, runs, truth = contest
    ids = random.Random(5).sample(list(truth), len(truth))
    template = folder / "labels.csv"
    template.write_text("id,label\n" + "".join(f"{name},1\n" for name in ids))
    rows = predict(folder, runs[:1], template, 2)
    assert [row[0] for row in rows[1:]] == ids
    assert {row[0]: row[1] for row in rows[1:]} == truth


def test_several_runs_give_the_mean_of_their_answers(
    contest: tuple[Path, list[RunDir], dict[str, str]],
) -> None:
    folder, runs, truth = contest
    template = folder / "wide.csv"
    template.write_text("2,id,1,10\n" + "".join(f"0,{name},0,0\n" for name in truth))
    one, two, both = (predict(folder, r, template, 2) for r in (runs[:1], runs[1:], runs))
    assert one != two
    for a, b, mean in zip(one[1:], two[1:], both[1:], strict=True):
        assert a[1] == b[1] == mean[1]
        for column in (0, 2, 3):
            expected = (float(a[column]) + float(b[column])) / 2
            assert float(mean[column]) == pytest.approx(expected, abs=1e-8)


def test_a_checkpoint_without_class_names_is_refused(tmp_path: Path) -> None:
    rundir = RunDir(tmp_path)
    rundir.make()
    folder = checkpoint.write(rundir, 1, {}, {"weights": "model.safetensors", "classes": []})
    checkpoint.point(rundir, "best", folder, {})
    with pytest.raises(RefusedError, match="holds no class names"):
        load_run(tmp_path, "best", torch.device("cpu"))
