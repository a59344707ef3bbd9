"""Ids of a table to files: every usual way of writing one, and what is refused."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scan_trees import NFC, NFD

from shanty.errors import RefusedError
from shanty.scan.ids import match_ids

PATHS = ("train/A.jpg", "train/B.JPG", f"train/{NFC}.png", "train/v1.5.jpg")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("train/A.jpg", "train/A.jpg"),
        ("./train/A.jpg", "train/A.jpg"),
        (".\\train\\A.jpg", "train/A.jpg"),
        ("/home/kim/data/train/A.jpg", "train/A.jpg"),
        ("C:\\data\\train\\A.jpg", "train/A.jpg"),
        ("A.jpg", "train/A.jpg"),
        ("  A.jpg ", "train/A.jpg"),
        ("A.JPG", "train/A.jpg"),
        ("A", "train/A.jpg"),
        ("train//A", "train/A.jpg"),
        ("B.jpg", "train/B.JPG"),
        (NFD, f"train/{NFC}.png"),
        (f"train/{NFD}.png", f"train/{NFC}.png"),
        ("v1.5", "train/v1.5.jpg"),
    ],
)
def test_the_ways_to_write_an_id(name: str, path: str) -> None:
    match = match_ids([name], PATHS)
    assert match.found == {name: path}
    assert match.missing == ()
    assert match.extra == tuple(p for p in PATHS if p != path)


@pytest.mark.parametrize("name", ["", " ", "C.jpg", "A.png", "rain/A.jpg", "a", "A.jpg/x", "v1"])
def test_what_is_no_way_to_write_one(name: str) -> None:
    match = match_ids([name], PATHS)
    assert (match.found, match.missing, match.extra) == ({}, (name,), PATHS)


def test_the_root_may_be_the_folder_the_ids_start_with() -> None:
    assert match_ids(["train/A.jpg"], ["A.jpg"]).found == {"train/A.jpg": "A.jpg"}


def test_an_exact_name_wins_over_a_looser_one() -> None:
    paths = ["A.jpg", "A.JPG", "sub/A.jpg", f"{NFC}.jpg", f"{NFD}.jpg"]
    assert match_ids(paths, paths).found == {p: p for p in paths}


def test_the_longer_common_ending_wins() -> None:
    paths = ["A.jpg", "train/A.jpg"]
    assert match_ids(["/x/train/A.jpg"], paths).found == {"/x/train/A.jpg": "train/A.jpg"}


@pytest.mark.parametrize(
    ("name", "paths"),
    [("A.jpg", ["x/A.jpg", "y/A.jpg"]), ("A", ["A.jpg", "A.png"]), ("a.JPG", ["a.jpG", "a.JPg"])],
)
def test_an_id_that_fits_two_files_is_refused(name: str, paths: list[str]) -> None:
    with pytest.raises(RefusedError, match=f"the id '{name}' fits two files") as caught:
        match_ids([name], paths)
    assert all(f"'{path}'" in caught.value.what for path in paths)


def test_files_that_differ_in_form_only_are_refused_with_their_forms() -> None:
    with pytest.raises(RefusedError) as caught:
        match_ids(["x/" + NFC + ".jpg"], [NFC + ".jpg", NFD + ".jpg"])
    assert "(composed)" in caught.value.what
    assert "(decomposed)" in caught.value.what


def test_two_ids_of_different_folders_may_not_share_a_file() -> None:
    with pytest.raises(
        RefusedError, match=r"'a/1\.jpg' and 'b/1\.jpg' lead to the one file '1\.jpg'"
    ):
        match_ids(["a/1.jpg", "b/1.jpg"], ["1.jpg"])


def test_two_ways_to_write_one_id_may() -> None:
    ids = ["a/1.jpg", "./a/1.jpg", "1", "a\\1.jpg"]
    assert set(match_ids(ids, ["a/1.jpg"]).found.values()) == {"a/1.jpg"}


def test_ids_that_look_like_numbers_are_text() -> None:
    match = match_ids(["01", "1", "1.0"], ["1.jpg", "01.jpg"])
    assert match.found == {"01": "01.jpg", "1": "1.jpg"}
    assert match.missing == ("1.0",)


def test_forty_thousand_ids_take_no_noticeable_time() -> None:
    paths = [f"c{i % 400}/x/image_{i}.jpg" for i in range(40_000)]
    assert len(match_ids([p.rpartition("/")[2][:-4] for p in paths], paths).found) == 40_000
    same = [f"c{i}/image.jpg" for i in range(20_000)]
    assert len(match_ids(["data/" + p for p in same], same).found) == 20_000


PART = st.text("abc가각é ._-", min_size=1, max_size=6).map(str.strip).filter(lambda s: s.strip("."))
STEMS = st.lists(
    st.tuples(PART, PART), unique_by=lambda p: unicodedata.normalize("NFC", p[1]), max_size=12
)


def rewrite(name: str, change: str) -> str:
    """One way of many to write the same id."""
    ways = {
        "dot": "./" + name,
        "folder": "data/" + name,
        "Windows": name.replace("/", "\\"),
        "space": name + " ",
        "no extension": name.removesuffix(".jpg"),
        "decomposed": unicodedata.normalize("NFD", name),
    }
    return ways[change]


CHANGES = st.lists(
    st.sampled_from(["dot", "folder", "Windows", "space", "no extension", "decomposed"]), max_size=3
)


@given(STEMS, st.data())
def test_a_rewritten_id_still_finds_its_own_file(
    stems: list[tuple[str, str]], data: st.DataObject
) -> None:
    paths = [f"{folder}/{name}.jpg" for folder, name in stems]
    ids = []
    for path in paths:
        name = path
        for change in data.draw(CHANGES):
            name = rewrite(name, change)
        ids.append(name)
    match = match_ids(ids, paths)
    assert match.found == dict(zip(ids, paths, strict=True))
    assert match.missing == match.extra == ()


@given(st.lists(st.text("ab/.\\ ", max_size=6)), st.lists(st.text("ab/.", min_size=1, max_size=6)))
def test_every_id_and_every_path_is_accounted_for(ids: list[str], paths: list[str]) -> None:
    try:
        match = match_ids(ids, paths)
    except RefusedError:
        return
    assert set(match.found) | set(match.missing) == set(ids)
    assert not set(match.found) & set(match.missing)
    assert set(match.found.values()) | set(match.extra) == set(paths)
    assert not set(match.found.values()) & set(match.extra)
