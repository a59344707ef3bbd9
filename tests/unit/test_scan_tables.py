"""Tables as people have them, and label tables."""

from __future__ import annotations

import codecs
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scan_trees import NFC, NFD, by_name, plant, scan

from shanty.errors import RefusedError, UsageError
from shanty.scan.tables import Table, read_table, render
from shanty.scan.training import scan_labelled

ROWS = "path,label\ntrain/A.jpg,고양이\ntrain/B.jpg,dog\ntrain/C.jpg,고양이\n"
IMAGES = ["train/A.jpg", "train/B.jpg", "train/C.jpg"]
WANTED = {"train/A.jpg": "고양이", "train/B.jpg": "dog", "train/C.jpg": "고양이"}

VARIANTS = {
    "plain": ROWS.encode(),
    "BOM": codecs.BOM_UTF8 + ROWS.encode(),
    "BOM and quotes": codecs.BOM_UTF8 + ROWS.replace("path", '"path"').encode(),
    "UTF-16 LE": codecs.BOM_UTF16_LE + ROWS.encode("utf-16-le"),
    "UTF-16 BE, tab": codecs.BOM_UTF16_BE + ROWS.replace(",", "\t").encode("utf-16-be"),
    "cp949": ROWS.encode("cp949"),
    "CRLF": ROWS.replace("\n", "\r\n").encode(),
    "CR": ROWS.replace("\n", "\r").encode(),
    "semicolon": ROWS.replace(",", ";").encode(),
    "dot slash": ROWS.replace("train/", "./train/").encode(),
    "Windows paths": ROWS.replace("train/", "train\\").encode(),
    "absolute": ROWS.replace("train/", "/home/kim/set/train/").encode(),
    "no folder": ROWS.replace("train/", "").encode(),
    "no extension": ROWS.replace(".jpg", "").encode(),
    "trailing spaces": ROWS.replace("\n", " \n").replace(",", " , ").encode(),
    "NFD": ROWS.replace("고양이", NFD).encode(),
    "no final newline": ROWS[:-1].encode(),
    "blank lines": ROWS.replace("\n", "\n\n").encode(),
    "no header": ROWS.partition("\n")[2].encode(),
    "unknown header": ROWS.replace("path,label", "사진,종류").encode(),
    "more columns": ROWS.replace("\n", ",9\n").replace("l,9", "l,size", 1).encode(),
    "other order": "\n".join(",".join(r.split(",")[::-1]) for r in ROWS.split()).encode(),
    "ID and img_path": b"ID,img_path,class\nT1,./train/A.jpg,\xea\xb3\xa0\xec\x96\x91\xec\x9d\xb4\n"
    b"T2,./train/B.jpg,dog\nT3,./train/C.jpg,\xea\xb3\xa0\xec\x96\x91\xec\x9d\xb4\n",
    "repeated row": (ROWS + "train/B.jpg,dog\n").encode(),
}


@pytest.mark.parametrize("content", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_variant_of_a_label_table_says_the_same(tmp_path: Path, content: bytes) -> None:
    plant(tmp_path, IMAGES)
    (tmp_path / "labels.csv").write_bytes(content)
    data = scan(tmp_path, labels="labels.csv", val_fraction=0)
    assert data.layout == "table"
    assert data.classes == ("dog", NFC)
    assert by_name(data) == WANTED


def test_composed_labels_match_decomposed_files(tmp_path: Path) -> None:
    plant(tmp_path, [f"{NFD}1.jpg", f"{NFC}2.jpg"])
    (tmp_path / "l.csv").write_text(f"path,label\n{NFC}1.jpg,a\n{NFD}2.jpg,b\n", "utf-8")
    data = scan(tmp_path, labels="l.csv", val_fraction=0)
    assert by_name(data) == {f"{NFD}1.jpg": "a", f"{NFC}2.jpg": "b"}


def test_the_table_may_lie_elsewhere(tmp_path: Path) -> None:
    plant(tmp_path / "set", IMAGES)
    (tmp_path / "표.csv").write_text(ROWS, "utf-8")
    data = scan(tmp_path / "set", labels=str(tmp_path / "표.csv"))
    assert by_name(data) == WANTED
    with pytest.raises(UsageError, match=r"no table nix\.csv, neither here nor in"):
        scan(tmp_path / "set", labels="nix.csv")


def label_table(tmp_path: Path, rows: str, images: list[str] | None = None) -> Path:
    plant(tmp_path, IMAGES if images is None else images)
    (tmp_path / "l.csv").write_text(rows, "utf-8")
    return tmp_path


def test_labels_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    rows = "id,label\nA,1\nB,01\nC,10\n"
    data = scan(label_table(tmp_path, rows), labels="l.csv", val_fraction=0)
    assert data.classes == ("01", "1", "10")


def test_unmatched_ids_are_refused_with_their_count_and_the_first_five(tmp_path: Path) -> None:
    rows = ROWS + "".join(f"X{i}.jpg,dog\n" for i in range(7))
    with pytest.raises(RefusedError, match=r"7 ids of 10 in .* match no image") as caught:
        scan(label_table(tmp_path, rows), labels="l.csv")
    assert "'X0.jpg', 'X1.jpg', 'X2.jpg', 'X3.jpg', 'X4.jpg' and 2 more" in caught.value.what


@pytest.mark.parametrize("again", ["train/B.jpg", "train\\B.jpg", "B"])
def test_an_id_with_two_labels_is_refused(tmp_path: Path, again: str) -> None:
    with pytest.raises(RefusedError) as caught:
        scan(label_table(tmp_path, ROWS + f"{again},고양이\n"), labels="l.csv")
    assert f"the id '{again}' has two labels: 'dog' and '고양이'" in caught.value.what


def test_what_a_table_says_twice_or_not_at_all_is_noted(tmp_path: Path) -> None:
    root = label_table(tmp_path, ROWS + "B,dog\n", [*IMAGES, "other.jpg", "more/x.jpg"])
    notes = scan(root, labels="l.csv").notes
    assert "1 row repeats an image with the same label, counted once" in notes
    assert "2 images are not in the table and left out" in notes


@pytest.mark.parametrize(("row", "what"), [("A.jpg, ", "label"), (",dog", "path")])
def test_a_row_without_label_or_path_is_refused(tmp_path: Path, row: str, what: str) -> None:
    with pytest.raises(RefusedError, match=f"row 1 of .* has no {what}"):
        scan(label_table(tmp_path, f"path,label\n{row}\n"), labels="l.csv")


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ("path\nA.jpg\n", "has a single column"),
        ("path,x,y\nA.jpg,1,2\n", "not clear which columns"),
        ("path,label\n", "has no rows"),
        ("", "is empty"),
    ],
)
def test_a_table_without_the_two_columns_is_refused(tmp_path: Path, rows: str, error: str) -> None:
    with pytest.raises((UsageError, RefusedError), match=error):
        scan(label_table(tmp_path, rows), labels="l.csv")


def test_a_labelled_file_that_is_no_image_is_kept_out(tmp_path: Path) -> None:
    root = label_table(tmp_path, ROWS + "D,dog\n")
    plant(root, ["train/D.jpg"], b"")
    data = scan(root, labels="l.csv")
    assert data.bad == (("train/D.jpg", "empty file"),)
    assert by_name(data) == WANTED


def test_measuring_by_a_table_uses_the_given_classes(tmp_path: Path) -> None:
    root = label_table(tmp_path, ROWS)
    data = scan_labelled(root, ("z", "고양이", "dog"), labels="l.csv")
    assert [s.label for s in data.val] == [1, 2, 1]
    with pytest.raises(RefusedError, match="this set has 2 images of the class '고양이'"):
        scan_labelled(root, ("dog",), labels="l.csv")


@pytest.mark.parametrize(
    ("content", "encoding", "newline", "delimiter", "final"),
    [
        (b"a,b\n1,2\n", "utf-8", "\n", ",", True),
        (codecs.BOM_UTF8 + b"a,b\r\n1,2", "utf-8-sig", "\r\n", ",", False),
        ("가;나\r1;2\r".encode("cp949"), "cp949", "\r", ";", True),
        (codecs.BOM_UTF16_LE + "가\t나\n".encode("utf-16-le"), "utf-16-le", "\n", "\t", True),
        (codecs.BOM_UTF16_BE + "가\t나".encode("utf-16-be"), "utf-16-be", "\n", "\t", False),
        (b'id,"x,y"\n1,"say ""no"""\n', "utf-8", "\n", ",", True),
        (b"id\nx\n", "utf-8", "\n", ",", True),
        (b" ID , b\n 1,\t2 \n", "utf-8", "\n", ",", True),
    ],
)
def test_a_table_is_written_back_as_it_was(
    tmp_path: Path, content: bytes, encoding: str, newline: str, delimiter: str, final: bool
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    table = read_table(path)
    assert (table.encoding, table.newline) == (encoding, newline)
    assert (table.delimiter, table.final_newline) == (delimiter, final)
    assert render(table) == content


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"a,b\n1,2\n1,2,3\n", r"line 3 of .* has 3 columns, the first line has 2"),
        (b'a,b\n"x\ny",2\n\n1\n', r"line 5 of .* has 1 columns, the first line has 2"),
        (b"a,b\n1,\x002\n", "holds zero bytes"),
        (b"a,b\n\xff\xff,2\n", "is not cp949"),
        (codecs.BOM_UTF16_LE + b"a", "is not utf-16-le"),
    ],
)
def test_a_broken_table_is_named_with_its_line(tmp_path: Path, content: bytes, error: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=error):
        read_table(path)


def test_a_missing_table_or_a_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no table"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="cannot be read"):
        read_table(tmp_path)


def test_a_letter_that_the_encoding_lacks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("가,나\n".encode("cp949"))
    with pytest.raises(UsageError, match="cannot be written in cp949"):
        render(replace(read_table(path), rows=(("📷", "x"),)))


CELL = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)


@given(
    st.integers(2, 4).flatmap(lambda n: st.lists(st.tuples(*[CELL] * n), min_size=1, max_size=6)),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_render_writes_read_table_reads(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, ...]],
    encoding: str,
    newline: str,
) -> None:
    rows = [tuple(c.replace("\ufeff", "x") for c in ("h" * len(rows[0]))), *rows]
    rows = [tuple(c.translate({0xFEFF: "x", ord(";"): "x"}) for c in row) for row in rows]
    path = tmp_path_factory.getbasetemp() / "t.csv"
    table = Table(
        path=str(path),
        header=rows[0],
        rows=tuple(rows[1:]),
        encoding=encoding,
        newline=newline,
        delimiter=",",
        final_newline=True,
    )
    path.write_bytes(render(table))
    assert read_table(path) == table
