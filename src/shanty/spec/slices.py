"""Which images a step takes and which rank gets which of them. Pure arithmetic.

The rules (docs/numerics.md): step k of an epoch takes a fixed slice of the epoch's permutation,
whatever the world size. Every image is taken exactly once per epoch; nothing is padded. The last
slice may be short; a last slice of one single image is joined to the slice before it, because
BatchNorm has no statistics of one image.
"""

from __future__ import annotations


def steps_per_epoch(images: int, batch: int) -> int:
    """Number of global steps in one epoch over ``images`` with global batch ``batch``."""
    if images < 1 or batch < 1:
        raise ValueError(f"need at least one image and a batch of one, got {images} and {batch}")
    full, rest = divmod(images, batch)
    joined = rest == 1 and full > 0 and batch > 1
    return full + (1 if rest and not joined else 0)


def slice_of(images: int, batch: int, step: int) -> tuple[int, int]:
    """Half-open range of positions in the epoch's permutation that ``step`` (from 0) takes."""
    last = steps_per_epoch(images, batch) - 1
    if not 0 <= step <= last:
        raise ValueError(f"step {step} is outside the epoch's {last + 1} steps")
    return step * batch, images if step == last else (step + 1) * batch


def deal(count: int, ranks: int) -> list[int]:
    """Share sizes per rank: as equal as possible, but no share of one where two are to be had.

    A short slice goes to fewer ranks rather than to all of them singly; the others get zero
    images and still take part in the step. Sums to ``count``; length ``ranks``.
    """
    if ranks < 1:
        raise ValueError(f"need at least one rank, got {ranks}")
    active = max(1, min(ranks, count // 2))
    base, extra = divmod(count, active)
    return [base + (1 if r < extra else 0) for r in range(active)] + [0] * (ranks - active)


def share_of(bounds: tuple[int, int], rank: int, ranks: int) -> tuple[int, int]:
    """The part of the slice ``bounds`` that ``rank`` of ``ranks`` computes (may be empty)."""
    shares = deal(bounds[1] - bounds[0], ranks)
    start = bounds[0] + sum(shares[:rank])
    return start, start + shares[rank]


def split_micro(count: int, micro: int | None) -> list[int]:
    """Micro-batch sizes of a share: equal within one, at most ``micro``, none of one image.

    Where both cannot hold (3 images, at most 2 at once) the bound is exceeded by one image.
    """
    if count <= 0:
        return []
    parts = 1 if micro is None else -(-count // micro)
    while parts > 1 and micro != 1 and count // parts < 2:
        parts -= 1
    base, extra = divmod(count, parts)
    return [base + (1 if p < extra else 0) for p in range(parts)]
