"""Weights from a file: whatever wrapped the model, every key is accounted for, none runs code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

from shanty.errors import RefusedError, UsageError
from shanty.train.weights import clean, head_names, is_head, load_weights, read_weights

Tensors = dict[str, torch.Tensor]


class Net(nn.Module):
    """Small, with the parts that matter: BatchNorm, a head, and timm's note of its name."""

    def __init__(self, classes: int = 3, head: str | tuple[str, ...] = "head") -> None:
        super().__init__()
        self.pretrained_cfg = {"classifier": head}
        self.stem = nn.Conv2d(3, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.stem(x)).mean((2, 3)))


def net(seed: int, classes: int = 3) -> Net:
    torch.manual_seed(seed)
    made = Net(classes)
    made(torch.randn(4, 3, 8, 8))  # BatchNorm has learned something
    return made.eval()


def written(path: Path, tensors: Tensors) -> Tensors:
    save_file({n: t.clone() for n, t in tensors.items()}, str(path))
    return read_weights(path)


def equal(first: nn.Module, second: nn.Module) -> bool:
    mine, its = first.state_dict(), second.state_dict()
    return mine.keys() == its.keys() and all(torch.equal(mine[n], its[n]) for n in mine)


def wrappers(model: nn.Module) -> Iterator[nn.Module]:
    yield model
    yield nn.DataParallel(model)  # its "module." is that of DistributedDataParallel too
    yield torch.compile(model)  # type: ignore[misc] # a module stays a module
    yield nn.DataParallel(torch.compile(model))  # type: ignore[arg-type] # as above
    yield torch.compile(nn.DataParallel(model))  # type: ignore[misc] # as above


def test_a_file_saved_from_any_wrapper_loads_and_gives_the_same_logits(tmp_path: Path) -> None:
    saved, images = net(1), torch.randn(2, 3, 8, 8)
    starts = set()
    for number, wrapped in enumerate(wrappers(saved)):
        starts.add(next(iter(wrapped.state_dict())).removesuffix("stem.weight"))
        fresh = net(2)
        tensors = written(tmp_path / f"{number}.safetensors", wrapped.state_dict())
        assert not load_weights(fresh, tensors, source="f", partial=False)
        assert equal(fresh, saved)
        assert torch.equal(fresh(images), saved(images))
    assert starts == {
        "", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.",
    }  # fmt: skip


def test_prefixes_are_cut_at_the_front_only() -> None:
    assert clean("module.module._orig_mod.stem.weight") == "stem.weight"
    assert clean("block.module.weight") == "block.module.weight"
    assert clean("modules.weight") == "modules.weight"


def test_a_real_model_of_another_kind_is_refused_with_numbers_and_five_keys() -> None:
    """The silent case of others: 102 of 122 keys do not match, and nothing is said."""
    small = timm.create_model("resnet18", num_classes=3)
    large = timm.create_model("resnet34", num_classes=3)
    assert head_names(small) == ("fc",)
    with pytest.raises(RefusedError) as caught:
        load_weights(small, dict(large.state_dict()), source="r34.safetensors", partial=False)
    assert re.match(r"r34.safetensors fits 122 of the model's 122 tensors: ", caught.value.what)
    assert len(re.findall(r"unknown layer\S+;", caught.value.what)) == 5
    assert f"and {218 - 122 - 5} more" in caught.value.what
    assert "model.partial=true" in caught.value.hint


def refusal(tensors: Tensors) -> str:
    fresh = net(2)
    before = {n: t.clone() for n, t in fresh.state_dict().items()}
    with pytest.raises(RefusedError) as caught:
        load_weights(fresh, tensors, source="w.safetensors", partial=False)
    assert all(torch.equal(t, before[n]) for n, t in fresh.state_dict().items()), "nothing loaded"
    return caught.value.what


def test_missing_unknown_and_misshapen_keys_are_named_and_nothing_is_loaded() -> None:
    tensors = dict(net(1).state_dict())
    del tensors["stem.weight"]
    tensors["stam.weight"] = torch.zeros(1)
    tensors["norm.bias"] = torch.zeros(5)
    said = refusal(tensors)
    assert said == (
        "w.safetensors fits 6 of the model's 8 tensors: missing stem.weight; unknown stam.weight;"
        " norm.bias has shape (5,), the model's is (4,)"
    )


def test_five_problems_are_named_and_the_others_counted() -> None:
    said = refusal({f"other.{n}": torch.zeros(1) for n in range(9)})
    assert len(re.findall(r"missing |unknown ", said)) == 5
    assert "fits 0 of the model's 8 tensors" in said
    assert said.endswith("; and 11 more")  # 7 missing (a step counter is not asked for), 9 unknown


def test_a_file_without_the_head_is_refused() -> None:
    tensors = {n: t for n, t in net(1).state_dict().items() if not n.startswith("head.")}
    assert "missing head.weight; missing head.bias" in refusal(tensors)


def test_partial_takes_what_fits_and_leaves_the_rest() -> None:
    tensors = dict(net(1).state_dict())
    fresh, untouched = net(2), net(2)
    del tensors["stem.weight"]
    tensors |= {"norm.bias": torch.zeros(5), "more": torch.zeros(1)}
    assert not load_weights(fresh, tensors, source="f", partial=True)
    state = fresh.state_dict()
    assert torch.equal(state["stem.weight"], untouched.state_dict()["stem.weight"])
    assert torch.equal(state["norm.bias"], untouched.state_dict()["norm.bias"])
    assert torch.equal(state["norm.running_mean"], tensors["norm.running_mean"])
    assert torch.equal(state["head.weight"], tensors["head.weight"])


def test_another_class_count_keeps_the_new_head_and_loads_the_rest() -> None:
    pretrained, fresh, untouched = net(1, classes=1000), net(2), net(2)
    assert load_weights(fresh, dict(pretrained.state_dict()), source="f", partial=False)
    assert torch.equal(fresh.head.weight, untouched.head.weight)
    assert torch.equal(fresh.head.bias, untouched.head.bias)
    assert torch.equal(fresh.stem.weight, pretrained.stem.weight)
    assert torch.equal(fresh.norm.state_dict()["running_var"], pretrained.norm.running_var)  # type: ignore[arg-type]


def test_a_head_of_another_width_does_not_excuse_the_backbone() -> None:
    tensors = dict(net(1, classes=9).state_dict())
    del tensors["norm.weight"]
    assert "missing norm.weight" in refusal(tensors)


def test_old_files_without_batch_norms_step_counter_load() -> None:
    tensors = {n: t for n, t in net(1).state_dict().items() if "num_batches" not in n}
    assert not load_weights(net(2), tensors, source="f", partial=False)


def test_half_precision_files_fill_a_float_model() -> None:
    tensors = {n: t.half() if t.is_floating_point() else t for n, t in net(1).state_dict().items()}
    fresh = net(2)
    load_weights(fresh, tensors, source="f", partial=False)
    assert fresh.stem.weight.dtype == torch.float32
    assert torch.equal(fresh.stem.weight, tensors["stem.weight"].float())


def test_heads_are_found_by_timms_own_notes() -> None:
    assert head_names(Net(head=("head", "head_dist"))) == ("head", "head_dist")
    assert head_names(nn.Linear(2, 2)) == ()
    assert is_head("head", ("head",))
    assert is_head("head.fc.weight", ("head",))
    assert not is_head("header.weight", ("head",))
    assert not is_head("head.weight", ())


class Trap:
    """What a pickle can do: run a program of its author's choice while it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("suffix", ["pt", "pth", "bin", "ckpt"])
@pytest.mark.parametrize("new_format", [True, False])
def test_a_pickle_is_refused_and_never_run(suffix: str, new_format: bool, tmp_path: Path) -> None:
    path, trace = tmp_path / f"w.{suffix}", tmp_path / "was-here"
    torch.save(Trap(trace), path, _use_new_zipfile_serialization=new_format)
    with pytest.raises(UsageError, match="pickle file, which can run code") as caught:
        read_weights(path)
    assert "save_file" in caught.value.hint
    assert not trace.exists()


def test_a_pickle_under_a_good_name_is_refused_and_never_run(tmp_path: Path) -> None:
    path, trace = tmp_path / "w.safetensors", tmp_path / "was-here"
    torch.save(Trap(trace), path)
    with pytest.raises(RefusedError, match="no whole safetensors file"):
        read_weights(path)
    assert not trace.exists()


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(net(1).state_dict(), str(path))
    whole = path.read_bytes()
    for broken in (b"", whole[:5], whole[:100], whole[:-1], whole + b"x", b"{}" + whole):
        path.write_bytes(broken)
        with pytest.raises(RefusedError, match="no whole safetensors file") as caught:
            read_weights(path)
        assert str(path) in caught.value.what


def test_no_file_is_a_wrong_path(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.safetensors", tmp_path):
        with pytest.raises(UsageError, match=f"no weights file at {re.escape(str(path))}"):
            read_weights(path)
