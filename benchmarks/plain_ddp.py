"""Plain data-parallel training in the usual style: what shanty is measured against.

    torchrun --nproc-per-node 3 benchmarks/plain_ddp.py DATA --model resnet18 --epochs 3

One file, torchvision's ImageFolder with Pillow, a DataLoader with worker processes, a
DistributedSampler, DistributedDataParallel, validation and torch.save on rank 0. Where usage
varies, the faster habit is taken (persistent workers, no per-step read of the loss), and the
same recipe as shanty's is used: the two differ in their machinery only.
Rank 0 prints JSON lines: ``step`` (monotonic seconds, images), ``validated``, ``done``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import timm
import torch
import torch.distributed as dist
from timm.data import resolve_model_data_config
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2


def main() -> None:
    """Join, build, train, leave."""
    options = parser().parse_args()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(options.seed)
    device = my_device()
    classes = len(ImageFolder(options.data / "train").classes)
    model = build(options, classes).to(device)
    train, valid = loaders(options, model)
    ddp = DistributedDataParallel(model)
    optimizer, schedule = optimizers(options, ddp, len(train))
    for epoch in range(options.epochs):
        train_epoch(options, ddp, train, (optimizer, schedule), epoch)
        if dist.get_rank() == 0:
            accuracy = validate(model, valid, device)
            say(kind="validated", epoch=epoch, accuracy=accuracy)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state | {"epoch": epoch}, options.out)
        dist.barrier()
    if dist.get_rank() == 0:
        say(kind="done")
    dist.destroy_process_group()


def parser() -> argparse.ArgumentParser:
    """The usual options; the defaults are shanty's recipe from scratch."""
    made = argparse.ArgumentParser(description="Plain DDP training of an image classifier.")
    made.add_argument("data", type=Path, help="a folder with train/ and val/ class folders")
    made.add_argument("--out", type=Path, default=Path("plain.pt"))
    made.add_argument("--model", default="resnet18")
    made.add_argument("--weights", default="", help="a .safetensors file in timm's key names")
    numbers: dict[str, float] = {
        "lr": 2e-3, "weight-decay": 0.05, "smoothing": 0.1, "warmup": 0.5, "final-lr": 0.01,
        "min-area": 0.35, "crop": 0.95,
    }  # fmt: skip
    counts = {"size": 224, "epochs": 3, "batch": 64, "workers": 2, "seed": 0}
    for name, number in (numbers | counts).items():
        made.add_argument(f"--{name}", type=type(number), default=number)
    return made


def my_device() -> torch.device:
    """One GPU per local rank, or the processor."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return torch.device("cuda", torch.cuda.current_device())


def build(options: argparse.Namespace, classes: int) -> nn.Module:
    """A timm model, with the weights of a file where one is given."""
    overlay = {"file": options.weights} if options.weights else None
    return timm.create_model(
        options.model,
        pretrained=bool(options.weights),
        pretrained_cfg_overlay=overlay,
        num_classes=classes,
    )


def loaders(
    options: argparse.Namespace, model: nn.Module
) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Training images dealt by a DistributedSampler; all validation images, for rank 0."""
    config = resolve_model_data_config(model)
    ending = [
        v2.PILToTensor(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(config["mean"], config["std"]),
    ]
    crop = v2.RandomResizedCrop(options.size, scale=(options.min_area, 1.0))
    cropped = [crop, v2.RandomHorizontalFlip()]
    centred = [v2.Resize(round(options.size / options.crop)), v2.CenterCrop(options.size)]
    train = ImageFolder(options.data / "train", v2.Compose([*cropped, *ending]))
    valid = ImageFolder(options.data / "val", v2.Compose([*centred, *ending]))
    sampler = DistributedSampler(train, seed=options.seed, drop_last=True)
    share = options.batch // dist.get_world_size()
    return loader(options, train, share, sampler), loader(options, valid, share, None)


def loader(
    options: argparse.Namespace,
    data: Dataset[Any],
    batch: int,
    sampler: DistributedSampler[Any] | None,
) -> DataLoader[Any]:
    """Worker processes that stay from epoch to epoch."""
    return DataLoader(
        data,
        batch_size=batch,
        sampler=sampler,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
        pin_memory=torch.cuda.is_available(),
        drop_last=sampler is not None,
    )


Stepping = tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]


def optimizers(options: argparse.Namespace, model: nn.Module, steps: int) -> Stepping:
    """AdamW; linear warm-up, then half a cosine, one move per step."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=options.lr, weight_decay=options.weight_decay
    )
    total, warmup = steps * options.epochs, round(steps * options.warmup)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        part = min(1.0, (step - warmup) / max(1, total - warmup - 1))
        return options.final_lr + (1 - options.final_lr) * 0.5 * (1 + math.cos(math.pi * part))

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_epoch(
    options: argparse.Namespace,
    model: DistributedDataParallel,
    train: DataLoader[Any],
    stepping: Stepping,
    epoch: int,
) -> None:
    """One pass; rank 0 prints a line per step."""
    optimizer, schedule = stepping
    criterion = nn.CrossEntropyLoss(label_smoothing=options.smoothing)
    if isinstance(train.sampler, DistributedSampler):
        train.sampler.set_epoch(epoch)
    model.train()
    batch = (train.batch_size or 0) * dist.get_world_size()
    for step, (images, labels) in enumerate(on_device(train)):
        loss = criterion(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            loss.item()  # the usual look at the loss now and then; on a GPU it also waits
        if dist.get_rank() == 0:
            say(kind="step", epoch=epoch, step=epoch * len(train) + step, batch=batch)


def on_device(batches: DataLoader[Any]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches, moved to this rank's device."""
    device = my_device()
    for images, labels in batches:
        yield images.to(device, non_blocking=True), labels.to(device, non_blocking=True)


@torch.no_grad()
def validate(model: nn.Module, valid: DataLoader[Any], device: torch.device) -> float:
    """Accuracy over all validation images, on this rank alone."""
    model.eval()
    right = total = 0
    for images, labels in valid:
        right += int((model(images.to(device)).argmax(1).cpu() == labels).sum())
        total += len(labels)
    return right / total


def say(**values: float | str) -> None:
    """One JSON line with the machine's monotonic time."""
    print(json.dumps({"t": time.monotonic(), **values}), flush=True)


if __name__ == "__main__":
    main()
