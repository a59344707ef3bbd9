"""Numbers as a person reads them."""

from __future__ import annotations

import pytest

from shanty import units


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (1.5 * (1 << 30), "1.5 GiB"),
        (3 << 40, "3.0 TiB"),
        (5000 << 40, "5000.0 TiB"),
    ],
)
def test_size(count: float, text: str) -> None:
    assert units.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0123, "12 ms"),
        (0.85, "850 ms"),
        (1, "1.0 s"),
        (12.34, "12.3 s"),
        (60, "1:00"),
        (245, "4:05"),
        (3599.6, "1:00:00"),
        (3723, "1:02:03"),
        (360000, "100:00:00"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.04, "0.0 img/s"), (9.94, "9.9 img/s"), (84.4, "84 img/s")]
)
def test_rate(value: float, text: str) -> None:
    assert units.rate(value) == text


def test_count_and_percent() -> None:
    assert units.count(3068) == "3,068"
    assert units.percent(0.8471) == "84.7 %"
    assert units.percent(1) == "100.0 %"


def test_plural() -> None:
    assert units.plural(1, "image") == "1 image"
    assert units.plural(0, "image") == "0 images"
    assert units.plural(3068, "image") == "3,068 images"
    assert units.plural(2, "class", "classes") == "2 classes"
    assert units.plural(1, "class", "classes") == "1 class"
