"""What a template's columns and sample answers mean, and which are refused."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shanty.errors import RefusedError
from shanty.predict.template import Question, understand
from shanty.scan.tables import Table, read_table

CLASSES = ("cat", "dog", "고양이")


def table(*lines: str, encoding: str = "utf-8") -> Table:
    header, *rows = [tuple(line.split(",")) for line in lines]
    return Table(
        path="/made/up/sample.csv",
        header=header,
        rows=tuple(rows),
        encoding=encoding,
        newline="\n",
        delimiter=",",
        final_newline=True,
    )


def refused(*lines: str, classes: tuple[str, ...] = CLASSES, encoding: str = "utf-8") -> str:
    with pytest.raises(RefusedError) as caught:
        understand(table(*lines, encoding=encoding), classes)
    assert caught.value.hint
    return str(caught.value)


@given(st.permutations(["ID", "cat", "dog", "고양이"]))
def test_probability_columns_are_found_by_name_in_any_order(header: list[str]) -> None:
    question = understand(table(",".join(header)), CLASSES)
    assert question.kind == "probability"
    assert header[question.id_index] == "ID"
    assert question.class_of_column == tuple((c, c) for c in header if c != "ID")


def test_spaces_and_unicode_form_do_not_matter_and_the_columns_keep_their_spelling() -> None:
    decomposed = unicodedata.normalize("NFD", "고양이")
    question = understand(table(f"ID, dog,{decomposed},cat "), CLASSES)
    assert question.class_of_column == ((" dog", "dog"), (decomposed, "고양이"), ("cat ", "cat"))


def test_two_columns_ask_for_a_label_under_the_columns_own_name() -> None:
    question = understand(table("id,class", "1,cat", "2,cat"), CLASSES)
    assert (question.kind, question.id_index) == ("label", 0)
    assert question.text_of_class == tuple((c, c) for c in CLASSES)
    assert question.notes == ()


@pytest.mark.parametrize(
    ("lines", "index"),
    [
        (("label,id", "cat,1", "cat,2"), 1),
        (("label,img_path", "cat,1", "dog,2"), 1),
        (("정답,번호", "cat,1", "cat,2"), 1),
        (("번호,정답", "1,cat", "2,dog"), 0),
        (("file,id", "a,1", "b,2"), 0),
    ],
)
def test_the_id_column_is_the_one_called_so_or_the_one_without_repeats(
    lines: tuple[str, ...], index: int
) -> None:
    assert understand(table(*lines), CLASSES).id_index == index


def test_a_class_may_be_called_like_an_id() -> None:
    question = understand(table("no,ID,passport", "1,0,0"), ("ID", "passport"))
    assert (question.kind, question.id_index) == ("probability", 0)
    assert understand(table("ID,label", "1,ID"), ("ID", "passport")).kind == "label"


def test_a_missing_class_column_is_refused_with_its_name() -> None:
    told = refused("ID,cat,dog", "1,0,0")
    assert "classes without a column: 1 ('고양이')" in told
    assert "'cat'" not in told


def test_an_unknown_column_is_refused_with_the_class_it_looks_like() -> None:
    told = refused("ID,Cat,dog,고양이", "1,0,0,0")
    assert "columns that are no class: 1 ('Cat')" in told
    assert "column 'Cat' looks like class 'cat'" in told


def test_a_column_too_many_is_refused() -> None:
    assert "columns that are no class: 1 ('bird')" in refused("ID,cat,dog,고양이,bird", "1,0,0,0,0")


def test_one_class_column_alone_is_no_label_column() -> None:
    assert "classes without a column: 2 ('dog', '고양이')" in refused("ID,cat", "1,0")


def test_long_lists_are_told_by_count_and_first_names() -> None:
    classes = tuple(f"c{i:03}" for i in range(100))
    told = refused("ID,c000,x,y", "1,0,0,0", classes=classes)
    assert "classes without a column: 99 ('c001', 'c002', 'c003', 'c004', 'c005' and 94" in told
    assert len(told.splitlines()) <= 5


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("ID,cat,cat ,dog", "the same name"),
        ("cat,dog,고양이", "no id column"),
        ("ID", "no place for an answer"),
    ],
)
def test_headers_without_sense_are_refused(header: str, told: str) -> None:
    assert told in refused(header)


def label_texts(samples: list[str], classes: tuple[str, ...]) -> Question:
    rows = [f"{i},{sample}" for i, sample in enumerate(samples)]
    return understand(table("id,label", *rows), classes)


def test_sample_answers_that_are_no_class_give_a_note() -> None:
    (note,) = label_texts(["0", "0"], CLASSES).notes
    assert "1 ('0')" in note
    assert "'cat'" in note


@pytest.mark.parametrize("samples", [["", ""], ["cat", "?"], [" dog ", "0"]])
def test_blank_or_known_sample_answers_give_no_note(samples: list[str]) -> None:
    assert label_texts(samples, CLASSES).notes == ()


@pytest.mark.parametrize(
    ("samples", "classes", "texts"),
    [
        (["0", "0"], ("00", "01", "10"), ["0", "1", "10"]),
        (["00", "00"], ("00", "01", "10"), ["00", "01", "10"]),
        (["0", "1"], ("0", "1"), ["0", "1"]),
        (["", ""], ("00", "01"), ["00", "01"]),
        (["0"], ("0", "00"), ["0", "00"]),
        (["7"], ("00", "01"), ["0", "1"]),
        (["0"], ("1", "01"), ["1", "01"]),
        (["0"], ("cat", "01"), ["cat", "01"]),
    ],
)
def test_whole_numbers_are_written_as_the_template_spells_them(
    samples: list[str], classes: tuple[str, ...], texts: list[str]
) -> None:
    pairs = label_texts(samples, classes).text_of_class
    assert pairs == tuple(zip(classes, texts, strict=True))


def test_a_class_that_the_templates_encoding_cannot_hold_is_refused_before_predicting() -> None:
    told = refused("id,답", "1,0", classes=("cat", "🐈"), encoding="cp949")
    assert "cp949" in told
    assert "UTF-8" in told


def test_the_cells_come_from_a_real_file_with_bom(tmp_path: Path) -> None:
    path = tmp_path / "sample.csv"
    path.write_bytes("\ufeffID,고양이,dog,cat\r\n1,0,0,0\r\n".encode())
    question = understand(read_table(path), CLASSES)
    assert (question.kind, question.id_index) == ("probability", 0)
