"""Bytes of a submission: numbers, quoting, encodings, and the file itself."""

from __future__ import annotations

import csv
import io
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shanty.errors import FailedError, UsageError
from shanty.predict.layout import Layout
from shanty.predict.submission import check_target, fallback_row, render, write_submission
from shanty.spec.codec import from_dict, to_dict

CLASSES = ("cat", "dog", "owl")
PROBABILITY = Layout(
    ids=("i1", "i2"),
    paths=("i1.jpg", "i2.jpg"),
    kind="probability",
    id_column="ID",
    columns=("owl", "ID", "cat", "dog"),
    class_of_column=(("owl", "owl"), ("cat", "cat"), ("dog", "dog")),
)
LABEL = Layout(
    ids=("i1", "i2"),
    paths=("i1.jpg", "i2.jpg"),
    kind="label",
    id_column="id",
    columns=("id", "label"),
    text_of_class=(("cat", "cat"), ("dog", "dog"), ("owl", "owl")),
)


def probabilities_in(data: bytes, columns: int) -> list[list[float]]:
    rows = list(csv.reader(io.StringIO(data.decode())))[1:]
    return [[float(cell) for cell in row[-columns:]] for row in rows]


def test_probabilities_stand_under_their_class_whatever_the_column_order() -> None:
    data = render(PROBABILITY, [[0.5, 0.25, 0.25], [0.125, 0.25, 0.625]], CLASSES)
    assert data == b"owl,ID,cat,dog\n0.25,i1,0.5,0.25\n0.625,i2,0.125,0.25\n"


def test_probabilities_stand_under_their_class_whatever_the_order_of_the_runs_classes() -> None:
    data = render(PROBABILITY, [[0.25, 0.5, 0.25]] * 2, ("owl", "cat", "dog"))
    assert data == b"owl,ID,cat,dog\n0.25,i1,0.5,0.25\n0.25,i2,0.5,0.25\n"


def test_a_label_is_the_name_of_the_most_probable_class() -> None:
    data = render(LABEL, [[0.1, 0.2, 0.7], [0.4, 0.4, 0.2]], CLASSES)
    assert data == b"id,label\ni1,owl\ni2,cat\n"


def test_of_two_nearly_equal_probabilities_the_larger_gives_the_label() -> None:
    low, high = 0.3, math.nextafter(0.3, 1)
    data = render(replace(LABEL, ids=("a",)), [[low, high, 0.4001 - 0.2]], CLASSES)
    assert data == b"id,label\na,dog\n"


def test_a_layout_survives_the_way_through_json() -> None:
    assert from_dict(Layout, to_dict(PROBABILITY)) == PROBABILITY
    assert from_dict(Layout, to_dict(LABEL)) == LABEL


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(any), min_size=1, max_size=5)
)
def test_every_written_row_sums_to_one_and_keeps_what_is_above_zero(
    rows: list[list[float]],
) -> None:
    names = ("a", "b", "c", "d")
    layout = Layout(
        ids=tuple(str(i) for i in range(len(rows))),
        paths=(),
        kind="probability",
        id_column="id",
        columns=("id", *names),
        class_of_column=tuple((n, n) for n in names),
    )
    for given_row, written in zip(
        rows, probabilities_in(render(layout, rows, names), 4), strict=True
    ):
        assert math.fsum(written) == pytest.approx(1, abs=1e-8)
        for p, told in zip(given_row, written, strict=True):
            assert (told > 0) == (p > 0)
            # 9 digits, apart from numbers so small that a float64 holds fewer
            assert told == pytest.approx(p / math.fsum(given_row), rel=1e-8, abs=1e-307)


def test_many_classes_still_sum_to_one_as_written() -> None:
    names = tuple(f"c{i}" for i in range(396))
    row = [1 / (i + 3) ** 2 for i in range(396)]
    layout = Layout(
        ids=("x",),
        paths=("x.jpg",),
        kind="probability",
        id_column="id",
        columns=("id", *names),
        class_of_column=tuple((n, n) for n in names),
    )
    (written,) = probabilities_in(render(layout, [[p / sum(row) for p in row]], names), 396)
    assert abs(math.fsum(written) - 1) < 1e-8


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ([0.5, math.nan, 0.5], "nan"),
        ([0.5, math.inf, 0.5], "inf"),
        ([1.5, -0.5, 0.0], "1.5"),
        ([0.0, 0.0, 0.0], "zero for every class"),
    ],
)
@pytest.mark.parametrize("layout", [PROBABILITY, LABEL])
def test_what_is_no_probability_fails_and_names_the_image(
    layout: Layout, row: list[float], told: str
) -> None:
    with pytest.raises(FailedError, match=told) as caught:
        render(layout, [[0.2, 0.3, 0.5], row], CLASSES)
    assert "i2" in caught.value.what
    assert caught.value.hint


@pytest.mark.parametrize("rows", [[[0.2, 0.3, 0.5]], [[0.2, 0.8], [0.2, 0.8]]])
def test_a_caller_with_too_few_rows_or_values_gets_a_value_error(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="for"):
        render(PROBABILITY, rows, CLASSES)


def test_cells_are_quoted_only_where_csv_needs_it_and_read_back_equal() -> None:
    ids = ("plain", "a,b", 'say "hi"', "two\nlines", " spaced ", "a;b", "")
    layout = replace(LABEL, ids=ids)
    data = render(layout, [[1.0, 0.0, 0.0]] * len(ids), CLASSES)
    assert b'plain,cat\n"a,b",cat\n"say ""hi""",cat\n"two\nlines",cat\n spaced ,cat\na;b,' in data
    read = list(csv.reader(io.StringIO(data.decode(), newline="")))[1:]
    assert tuple(row[0] for row in read) == ids


def test_a_semicolon_file_quotes_semicolons_and_not_commas() -> None:
    layout = replace(LABEL, ids=("a;b", "a,b"), delimiter=";")
    data = render(layout, [[1.0, 0.0, 0.0]] * 2, CLASSES)
    assert data == b'id;label\n"a;b";cat\na,b;cat\n'


@pytest.mark.parametrize("sign", "=+-@")
def test_ids_that_a_spreadsheet_would_take_for_formulas_stay_as_they_are(sign: str) -> None:
    data = render(replace(LABEL, ids=(f"{sign}1", "x")), [[1.0, 0.0, 0.0]] * 2, CLASSES)
    assert data.splitlines()[1] == f"{sign}1,cat".encode()


def test_a_file_name_that_is_no_text_keeps_its_bytes() -> None:
    name = b"x\xe9".decode("utf-8", "surrogateescape")
    data = render(replace(LABEL, ids=(name, "x")), [[1.0, 0.0, 0.0]] * 2, CLASSES)
    assert data == b"id,label\nx\xe9,cat\nx,cat\n"


def test_the_fallback_is_the_class_frequencies_and_as_a_label_the_most_frequent_class() -> None:
    row = fallback_row([1, 6, 1])
    assert row == (0.125, 0.75, 0.125)
    assert render(replace(LABEL, ids=("x",)), [row], CLASSES) == b"id,label\nx,dog\n"


@pytest.mark.parametrize("prior", [[], [0, 0], [1, -1], [1, math.nan]])
def test_a_fallback_needs_real_frequencies(prior: list[float]) -> None:
    with pytest.raises(ValueError, match="frequencies"):
        fallback_row(prior)


def test_the_file_holds_the_bytes_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "제출.csv"
    write_submission(path, b"id,label\n", force=False)
    assert path.read_bytes() == b"id,label\n"
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_file_is_kept_without_force_and_replaced_with_it(tmp_path: Path) -> None:
    path = tmp_path / "submission.csv"
    path.write_bytes(b"old")
    with pytest.raises(UsageError, match="exists") as caught:
        write_submission(path, b"new", force=False)
    assert "--force" in caught.value.hint
    assert path.read_bytes() == b"old"
    write_submission(path, b"new", force=True)
    assert path.read_bytes() == b"new"


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_bytes(b"old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_submission(tmp_path / "link.csv", b"new", force=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_bytes() == b"new"


def test_a_device_or_folder_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, Path("/dev/null")):
        with pytest.raises(UsageError, match="not a plain file"):
            check_target(path, force=True)


def test_a_missing_folder_is_found_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        check_target(tmp_path / "absent" / "submission.csv", force=False)


WRITE_ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from shanty.errors import FailedError
from shanty.predict.submission import write_submission
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_submission(Path(sys.argv[1]), b"x" * 5000, force=True)
except FailedError as error:
    print(error)
"""


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "submission.csv"
    path.write_bytes(b"old")
    command = [sys.executable, "-c", WRITE_ON_A_FULL_DISK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout
    assert "5,000 bytes" in done.stdout
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
