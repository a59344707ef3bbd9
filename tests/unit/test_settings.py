"""Settings: sources and their order, mistakes told with their place, the printed file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from shanty.cli.config import render
from shanty.cli.names import KEYS, suggest
from shanty.cli.ranks import choose_ranks
from shanty.cli.settings import absolute, load, may_be_auto
from shanty.cli.tomlfile import TomlFile, parse
from shanty.errors import RefusedError, UsageError
from shanty.spec.config import ModelConfig, RunConfig
from shanty.spec.recipe import resolve


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text, "utf-8")
    return path


def mistake(folder: Path, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(written(folder, text))
    return str(caught.value).replace(str(folder) + "/", "")


def test_nothing_given_is_the_defaults() -> None:
    assert load() == RunConfig()


def test_file_then_option_then_set(tmp_path: Path) -> None:
    file = written(tmp_path, "epochs = 2\nbatch = 8\nseed = 3\n")
    config = load(file, {"batch": 16, "seed": 4, "epochs": None}, ["seed=5"])
    assert (config.epochs, config.batch, config.seed) == (2, 16, 5)


def test_an_option_not_given_does_not_override(tmp_path: Path) -> None:
    file = written(tmp_path, "[optim]\nlr = 0.5\n")
    assert load(file, {"optim.lr": None}).optim.lr == 0.5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[optim]\n\nlrr = 1", "run.toml line 3: unknown key optim.lrr\n  fix: did you mean 'op"),
        ("lr = 1", "run.toml line 1: unknown key lr\n  fix: did you mean 'optim.lr'?"),
        ("epoch = 1", "run.toml line 1: unknown key epoch\n  fix: did you mean 'epochs'?"),
        ("[optimm]\nlr = 1", "run.toml line 1: unknown key optimm\n  fix: did you mean 'optim'?"),
        ("optim.momentumm = 1", "run.toml line 1: unknown key optim.momentumm"),
        ("optim = {lrr = 1}", "run.toml: unknown key optim.lrr"),
        ("optim = 3", "run.toml line 1: optim is a section, not a value"),
        ("epochs = '3'", "run.toml line 1: epochs = '3' is not accepted\n  fix: give a valid int"),
        ("epochs = 1.5", "run.toml line 1: epochs = 1.5 is not accepted"),
        ("epochs = true", "run.toml line 1: epochs = True is not accepted"),
        ("[optim]\nname = 'sdg'", "run.toml line 2: optim.name = 'sdg' is not accepted"),
        ("[sync]\nsync_bn = 1", "run.toml line 2: sync.sync_bn = 1 is not accepted"),
        ("[data]\nsize = [1, 2]", "run.toml line 2: data.size = [1, 2] is not one single value"),
        ("[optim]\nlr = nan", "run.toml line 2: optim.lr = nan is not a finite number"),
        ("[optim]\nlr = -1.0", "run.toml line 2: optim.lr = -1.0 is out of range"),
        ("epochs = 0", "run.toml line 1: epochs = 0 is out of range\n  fix: choose at least 1"),
        ("seed = 99999999999999999999", "run.toml line 1: seed = 99999999999999999999 is out of"),
        ("epochs = \n", "config file run.toml is not valid TOML: "),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    assert mistake(tmp_path, text).startswith(told)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            "optim.lrr=1",
            "--set optim.lrr=1: unknown key optim.lrr\n  fix: did you mean 'optim.lr'?",
        ),
        ("lr=1", "--set lr=1: unknown key lr\n  fix: did you mean 'optim.lr'?"),
        ("optim.lr=fast", "--set optim.lr=fast: optim.lr = 'fast' is not accepted"),
        ("optim.lr", "--set optim.lr has no key and value"),
        ("=1", "--set =1 has no key and value"),
    ],
)
def test_a_mistake_in_set(given: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(sets=[given])
    assert str(caught.value).startswith(told)


def test_a_wrong_option_is_named_as_it_was_typed() -> None:
    with pytest.raises(UsageError, match=r"--lr: optim\.lr = -2\.0 is out of range"):
        load(options={"optim.lr": -2.0})


def test_values_of_set() -> None:
    config = load(sets=["optim.name=sgd", "model.name='a b'", "sync.sync_bn=true", "optim.lr=1"])
    assert config.optim.name == "sgd"
    assert config.model.name == "a b"
    assert config.sync.sync_bn is True
    assert config.optim.lr == 1.0


def test_auto_takes_a_value_back(tmp_path: Path) -> None:
    file = written(tmp_path, "[optim]\nlr = 0.5\n[precision]\namp = 'bf16'\n")
    config = load(file, sets=["optim.lr=auto", "precision.amp=auto"])
    assert config.optim.lr is None
    assert config.precision.amp == "auto"


def test_auto_is_refused_where_nothing_is_automatic() -> None:
    with pytest.raises(UsageError, match="epochs = 'auto' is not accepted"):
        load(sets=["epochs=auto"])


def test_windows_lines_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xef\xbb\xbfepochs = 3\r\n[optim]\r\nlr = 0.5\r\n")
    config = load(path)
    assert (config.epochs, config.optim.lr) == (3, 0.5)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "none.toml")
    path = tmp_path / "latin.toml"
    path.write_bytes(b"[model]\nname = '\xe9'\n")
    with pytest.raises(UsageError, match="is not UTF-8"):
        load(path)


def test_suggestions() -> None:
    assert suggest("schedule.zzz") == "choose one of: schedule.final_lr, schedule.warmup"
    assert suggest("batch_size") == "did you mean 'batch'?"
    assert suggest("smoothing") == "did you mean 'optim.smoothing'?"
    assert suggest("data.weights") == "did you mean 'model.weights'?"


@pytest.mark.parametrize("recipe", ["scratch", "finetune"])
def test_the_printed_file_is_exactly_the_defaults(tmp_path: Path, recipe: str) -> None:
    assert load(written(tmp_path, render(recipe))) == RunConfig()


@pytest.mark.parametrize("recipe", ["scratch", "finetune"])
def test_the_printed_automatic_values_are_the_recipes(tmp_path: Path, recipe: str) -> None:
    text = re.sub(r"^# (\w+ = )", r"\1", render(recipe), flags=re.MULTILINE)
    weights = "x.safetensors" if recipe == "finetune" else ""
    start = replace(RunConfig(), model=ModelConfig(weights=weights))
    printed = load(written(tmp_path, text), {"model.weights": weights})
    assert printed == resolve(start)


def test_the_printed_file_names_every_setting_in_order() -> None:
    text = render()
    found: list[str] = []
    section = ""
    for line in text.splitlines():
        if head := re.fullmatch(r"\[(\w+)\]", line):
            section = head[1] + "."
        elif key := re.match(r"(?:# )?(\w+) = ", line):
            found.append(section + key[1])
    assert tuple(found) == KEYS
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_commented_out_is_what_may_be_automatic() -> None:
    parsed = parse(render(), "printed")
    flat = {k if not isinstance(v, dict) else "" for k, v in parsed.items()} | {
        f"{s}.{k}" for s, v in parsed.items() if isinstance(v, dict) for k in v
    }
    assert {key for key in KEYS if key not in flat} == {key for key in KEYS if may_be_auto(key)}


def test_lines_are_found_by_section(tmp_path: Path) -> None:
    text = "batch = 1\n[validate]\nbatch = 2 # batch\n[ data ]\nsize = 3\n"
    file = TomlFile(path=tmp_path, text=text)
    lines = [file.line_of(k) for k in ("batch", "validate.batch", "data.size", "validate", "x")]
    assert lines == [1, 3, 5, 2, None]


def test_files_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    config = absolute(load(options={"model.weights": "w.safetensors"}))
    assert config.model.weights == str(tmp_path / "w.safetensors")
    assert config.data.labels == ""
    with pytest.raises(UsageError, match=r"no label table file at none\.csv"):
        absolute(load(options={"data.labels": "none.csv"}))


@pytest.mark.parametrize(
    ("asked", "device", "gpus", "ranks"),
    [
        ("auto", "auto", 0, 1),
        ("auto", "auto", 3, 3),
        ("auto", "cpu", 3, 1),
        ("2", "auto", 3, 2),
        ("5", "cpu", 3, 5),
        ("64", "auto", 0, 64),
    ],
)
def test_number_of_ranks(asked: str, device: str, gpus: int, ranks: int) -> None:
    assert choose_ranks(asked, device, gpus) == ranks


def test_ranks_that_are_refused() -> None:
    with pytest.raises(RefusedError, match="--nproc 4 is more than the 2 GPUs of this machine"):
        choose_ranks("4", "auto", 2)
    with pytest.raises(RefusedError, match="--nproc 65 is more than 64"):
        choose_ranks("65", "auto", 0)
    with pytest.raises(RefusedError, match="no GPU"):
        choose_ranks("1", "cuda", 0)
    for text in ("0", "-1", "two", "1.5", ""):
        with pytest.raises(UsageError, match="is no number of ranks"):
            choose_ranks(text, "auto", 0)
