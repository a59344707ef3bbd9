"""Templates, folders and tables of images together: rows, order and exact bytes."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from shanty.errors import RefusedError, UsageError
from shanty.predict.submission import Layout, plan_submission, render
from shanty.scan.dataset import ImageList

CLASSES = ("cat", "dog")
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def folder(root: Path, names: list[str]) -> ImageList:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff")
    return ImageList(root=str(root), paths=tuple(names), used={}, ignored={}, notes=())


def answer(layout: Layout, right: dict[str, str]) -> bytes:
    """The file as a perfect model would fill it: class by path."""
    rows = [[0.875 if c == right[p] else 0.125 for c in CLASSES] for p in layout.paths]
    return render(layout, rows, CLASSES)


def refusal(images: ImageList, template: Path | None, table: Path | None = None) -> str:
    with pytest.raises(RefusedError) as caught:
        plan_submission(images, CLASSES, template, table)
    assert caught.value.hint
    return str(caught.value)


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def test_shuffled_ids_keep_the_templates_order_and_get_their_own_answer(tmp_path: Path) -> None:
    ids = [str(i) for i in range(1, 121)]
    images = folder(tmp_path / "test", sorted(f"{i}.jpg" for i in ids))
    ids.sort(key=lambda i: (i[::-1], i))  # 10, 100, 20, ...: neither as text nor as numbers
    template = written(tmp_path / "s.csv", "id,label\n" + "".join(f"{i},cat\n" for i in ids))
    right = {f"{i}.jpg": CLASSES[int(i) % 2] for i in ids}
    layout = plan_submission(images, CLASSES, template)
    assert layout.ids == tuple(ids)
    assert layout.paths == tuple(f"{i}.jpg" for i in ids)
    expected = "id,label\n" + "".join(f"{i},{CLASSES[int(i) % 2]}\n" for i in ids)
    assert answer(layout, right) == expected.encode()


NFD = unicodedata.normalize("NFD", "고양이")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", [True, False])
def test_encoding_newline_delimiter_and_last_line_are_the_templates(
    tmp_path: Path, encoding: str, newline: str, delimiter: str, end: bool
) -> None:
    images = folder(tmp_path / "test", ["고양이_1.jpg", "b.jpg"])
    lines = [["번호", "dog", "cat"], ["b", "0.125", "0.875"], ["고양이_1", "0.875", "0.125"]]
    text = newline.join(delimiter.join(line) for line in lines) + newline * end
    template = written(tmp_path / "s.csv", text, encoding)
    layout = plan_submission(images, CLASSES, template)
    assert answer(layout, {"고양이_1.jpg": "dog", "b.jpg": "cat"}) == template.read_bytes()


@pytest.mark.parametrize("in_template", [NFD, "고양이"])
@pytest.mark.parametrize("on_disk", [NFD, "고양이"])
def test_korean_ids_keep_their_bytes_whatever_form_the_files_have(
    tmp_path: Path, in_template: str, on_disk: str
) -> None:
    images = folder(tmp_path / "test", [f"{on_disk}.jpg", "b.jpg"])
    template = written(tmp_path / "s.csv", f"id,label\n{in_template},cat\nb,dog\n")
    layout = plan_submission(images, CLASSES, template)
    right = {f"{on_disk}.jpg": "cat", "b.jpg": "dog"}
    assert answer(layout, right) == template.read_bytes()


@pytest.mark.parametrize(
    "form",
    ["./test/{}.jpg", "test\\{}.jpg", "{}", "{}.JPG", "{} ", "/data/test/{}.jpg", "=HYPER{}"],
)
def test_every_way_to_write_an_id_is_matched_and_written_back_exactly(
    tmp_path: Path, form: str
) -> None:
    names = [f"{form[:6] if form[0] == '=' else ''}{i}.jpg" for i in "ab"]
    images = folder(tmp_path / "test", names)
    text = "id,label\n" + "".join(f"{form.format(i)},cat\n" for i in "ab")
    template = written(tmp_path / "s.csv", text)
    layout = plan_submission(images, CLASSES, template)
    assert answer(layout, dict.fromkeys(names, "cat")) == template.read_bytes()


def test_cells_that_the_template_quoted_are_quoted_only_where_they_need_it(tmp_path: Path) -> None:
    images = folder(tmp_path / "test", ["1.jpg", "a,b.jpg"])
    template = written(tmp_path / "s.csv", '"id","label"\n"1","cat"\n"a,b","cat"\n')
    layout = plan_submission(images, CLASSES, template)
    data = answer(layout, dict.fromkeys(images.paths, "dog"))
    assert data == b'id,label\n1,dog\n"a,b",dog\n'


def test_missing_and_extra_ids_are_refused_with_counts_and_names(tmp_path: Path) -> None:
    images = folder(tmp_path / "test", ["1.jpg", "x.jpg", "y.jpg"])
    rows = "".join(f"{i},cat\n" for i in range(1, 9))
    told = refusal(images, written(tmp_path / "s.csv", "id,label\n" + rows))
    assert "ids without an image: 7 ('2', '3', '4', '5', '6' and 2 more)" in told
    assert "images without an id: 2 ('x.jpg', 'y.jpg')" in told
    assert "s.csv" in told


def test_extra_images_alone_are_refused_too(tmp_path: Path) -> None:
    images = folder(tmp_path / "test", ["1.jpg", "2.jpg"])
    told = refusal(images, written(tmp_path / "s.csv", "id,label\n1,cat\n"))
    assert "images without an id: 1 ('2.jpg')" in told
    assert "without an image:" not in told


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("1,cat\n2,cat\n1,dog\n", "more than once: 1 ('1')"),
        ("1,cat\n2,cat\n2 ,dog\n", "more than once: 1 ('2')"),
        ("1,cat\n1.jpg,cat\n2,cat\n", "'1', '1.jpg' are both the image 1.jpg"),
        ("", "no rows"),
    ],
)
def test_repeated_or_absent_ids_are_refused_by_name(tmp_path: Path, rows: str, told: str) -> None:
    images = folder(tmp_path / "test", ["1.jpg", "2.jpg"])
    assert told in refusal(images, written(tmp_path / "s.csv", "id,label\n" + rows))


def test_without_a_template_the_ids_are_the_paths_without_extension(tmp_path: Path) -> None:
    images = folder(tmp_path, ["a.b.JPG", "sub/c.png", f"{NFD}.jpg"])
    layout = plan_submission(images, CLASSES)
    expected = f"id,label\na.b,cat\nsub/c,cat\n{NFD},cat\n".encode()
    assert answer(layout, dict.fromkeys(images.paths, "cat")) == expected


def test_without_a_template_ids_that_would_collide_keep_their_extension(tmp_path: Path) -> None:
    images = folder(tmp_path, ["a.jpg", "a.png", "b.jpg"])
    assert plan_submission(images, CLASSES).ids == ("a.jpg", "a.png", "b.jpg")


@pytest.mark.parametrize("root", ["", "test"])
@pytest.mark.parametrize("form", ["./test/{}.jpg", "test\\{}.jpg", "/contest/test/{}.jpg"])
def test_a_table_of_images_says_which_file_an_id_is(tmp_path: Path, root: str, form: str) -> None:
    names = [f"{'' if root else 'test/'}{i}.jpg" for i in "pqr"]
    images = folder(tmp_path / root, names)
    cells = zip(("3", "1", "2"), "rqp", strict=True)
    rows = "".join(f"{i},{form.format(n)}\n" for i, n in cells)
    table = written(tmp_path / "test.csv", "ID,img_path\n" + rows)
    alone = plan_submission(images, CLASSES, table=table)
    assert alone.columns == ("id", "label")
    assert dict(zip(alone.ids, alone.paths, strict=True)) == dict(
        zip(("3", "1", "2"), (names[2], names[1], names[0]), strict=True)
    )
    template = written(tmp_path / "s.csv", "ID,cat,dog\n1,0,0\n2,0,0\n3,0,0\n")
    both = plan_submission(images, CLASSES, template, table)
    assert both.ids == ("1", "2", "3")
    assert both.paths == (names[1], names[0], names[2])


def test_images_that_the_table_does_not_name_are_left_out(tmp_path: Path) -> None:
    images = folder(tmp_path, ["test/a.jpg", "train/a.jpg", "train/b.jpg"])
    table = written(tmp_path / "test.csv", "ID,img_path\n1,./test/a.jpg\n")
    layout = plan_submission(images, CLASSES, table=table)
    assert (layout.ids, layout.paths) == (("1",), ("test/a.jpg",))


def test_a_table_and_a_template_with_other_ids_are_refused(tmp_path: Path) -> None:
    images = folder(tmp_path, ["a.jpg", "b.jpg"])
    table = written(tmp_path / "test.csv", "ID,img_path\n1,a.jpg\n2,b.jpg\n")
    template = written(tmp_path / "s.csv", "ID,label\n1,cat\n3,cat\n")
    told = refusal(images, template, table)
    assert "ids only in s.csv: 1 ('3')" in told
    assert "ids only in test.csv: 1 ('2')" in told


def test_a_table_with_a_path_to_no_image_or_no_path_column_is_refused(tmp_path: Path) -> None:
    images = folder(tmp_path, ["a.jpg"])
    gone = written(tmp_path / "gone.csv", "ID,img_path\n1,a.jpg\n2,b.jpg\n")
    assert "paths without an image: 1 ('b.jpg')" in refusal(images, None, gone)
    blind = written(tmp_path / "blind.csv", "ID,size\n1,3\n")
    assert "'ID', 'size'" in refusal(images, None, blind)


def test_a_template_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    images = folder(tmp_path, ["a.jpg"])
    with pytest.raises(UsageError, match=r"absent\.csv"):
        plan_submission(images, CLASSES, tmp_path / "absent.csv")


CONTESTS = [
    (name, with_table)
    for name in ("mid", "tiny")
    for with_table in (False, True)
    if (SHARED / name / ("test.csv" if with_table else "sample_submission.csv")).exists()
]


def contest(tmp_path: Path) -> list[tuple[Path, tuple[str, ...], bool]]:
    """Real contests where they lie beside the project, else a generated one."""
    found = [
        (SHARED / name, tuple(sorted(p.name for p in (SHARED / name / "train").iterdir())), table)
        for name, table in CONTESTS
    ]
    if found:
        return found
    folder(tmp_path, [f"test/TEST_{i:05}.jpg" for i in range(50)])
    rows = [f"TEST_{i:05}" for i in range(50)]
    written(
        tmp_path / "sample_submission.csv", "ID,cat,dog\n" + "".join(f"{r},0,0\n" for r in rows)
    )
    paths = "".join(f"{r},./test/{r}.jpg\n" for r in rows)
    written(tmp_path / "test.csv", "ID,img_path\n" + paths)
    return [(tmp_path, CLASSES, False), (tmp_path, CLASSES, True)]


def test_a_contests_own_template_comes_back_with_only_the_numbers_changed(tmp_path: Path) -> None:
    for root, classes, with_table in contest(tmp_path):
        names = sorted(p.name for p in (root / "test").iterdir())
        images = ImageList(
            root=str(root / "test"), paths=tuple(names), used={}, ignored={}, notes=()
        )
        template = root / "sample_submission.csv"
        table = root / "test.csv" if with_table else None
        layout = plan_submission(images, classes, template, table)
        assert layout.kind == "probability"
        assert all(p == f"{i}.jpg" for i, p in zip(layout.ids, layout.paths, strict=True))
        one = [1.0] + [0.0] * (len(classes) - 1)
        data = render(layout, [one] * len(layout.ids), classes)
        zero = template.read_bytes().splitlines(keepends=True)
        made = data.splitlines(keepends=True)
        assert made[0] == zero[0]
        assert [line.replace(b",1,", b",0,", 1) for line in made[1:]] == zero[1:]
