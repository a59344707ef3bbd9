"""Names: Unicode forms, invalid bytes, hidden files, links, odd files, any locale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
from scan_trees import JPEG, NFC, NFD, by_name, numbered, plant, scan

from shanty.errors import RefusedError
from shanty.scan.dataset import DataSet
from shanty.scan.names import is_hidden, is_image_name, on_disk, shown, shown_pair
from shanty.scan.sniff import why_no_image
from shanty.scan.training import scan_images
from shanty.spec.codec import from_dict

AWKWARD = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "awkward.tar.gz"


def test_nfc_and_nfd_boards_see_the_same_data(tmp_path: Path) -> None:
    first = scan(plant(tmp_path / "0", [f"{NFC}/{i}.jpg" for i in range(9)] + ["z/1.jpg"]))
    other = scan(plant(tmp_path / "1", [f"{NFD}/{i}.jpg" for i in range(9)] + ["z/1.jpg"]))
    assert other.classes == first.classes == ("z", NFC)
    assert other.digest == first.digest
    assert [s.label for s in other.val] == [s.label for s in first.val]
    assert [s.path.replace(NFD, NFC) for s in other.train] == [s.path for s in first.train]
    assert any(s.path.startswith(NFD) for s in other.train), "paths keep the bytes on disk"
    assert "1 decomposed name (NFD) is compared composed (NFC)" in other.notes
    assert not any("decomposed" in note for note in first.notes)


def test_a_class_folder_in_both_forms_is_one_class(tmp_path: Path) -> None:
    data = scan(plant(tmp_path, [f"{NFC}/1.jpg", f"{NFD}/2.jpg", "dog/1.jpg"]))
    assert data.classes == ("dog", NFC)
    assert by_name(data)[f"{NFD}/2.jpg"] == NFC
    assert any("1 class folder exists in two Unicode forms" in note for note in data.notes)


def test_files_that_collide_after_normalisation_are_refused(tmp_path: Path) -> None:
    plant(tmp_path, [f"{NFC}/1.jpg", f"{NFD}/1.jpg", "dog/1.jpg"])
    for attempt in (scan, scan_images):
        with pytest.raises(RefusedError) as caught:
            attempt(tmp_path)
        assert f"'{NFC}/1.jpg' (composed)" in caught.value.what
        assert f"'{NFD}/1.jpg' (decomposed)" in caught.value.what


def test_hidden_files_and_folders_never_count(tmp_path: Path) -> None:
    junk = [".ipynb_checkpoints/x.jpg", "__MACOSX/a/x.jpg", "a/._1.jpg", "a/.DS_Store"]
    junk += ["a/Thumbs.db", "b/desktop.ini", "a/.ipynb_checkpoints/y.jpg", "lost+found/"]
    data = scan(plant(tmp_path, ["a/1.jpg", "b/1.jpg", *junk]))
    assert by_name(data) == {"a/1.jpg": "a", "b/1.jpg": "b"}
    assert data.ignored == {}
    assert "8 hidden files or folders are left out" in data.notes
    assert is_hidden("._x.jpg")
    assert is_hidden("THUMBS.DB")
    assert not is_hidden("x.y")


def test_every_used_extension_counts_and_every_other_is_counted_as_ignored(tmp_path: Path) -> None:
    used = ["jpg", "JPEG", "Jpe", "jfif", "PNG", "bmp", "gif", "WebP", "tif", "TIFF"]
    plant(
        tmp_path, [f"a/x.{k}" for k in used] + ["b/1.jpg", "b/2.heic", "b/3.avif", "b/4", "r.csv"]
    )
    data = scan(tmp_path)
    assert set(data.used) == {k.lower() for k in used}
    assert sum(data.used.values()) == 11
    assert data.ignored == {"": 1, "avif": 1, "csv": 1, "heic": 1}
    said = "4 files of other kinds are ignored: 1 without extension, 1 .avif, 1 .csv, 1 .heic"
    assert said in data.notes
    assert not is_image_name(".jpg")


def test_files_that_are_no_images_are_kept_out_with_their_reason(tmp_path: Path) -> None:
    plant(tmp_path, [*numbered("a", 3), *numbered("b", 3)])
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    plant(tmp_path, ["a/lfs.jpg"], pointer)
    plant(tmp_path, ["a/null.jpg"], bytes(100))
    plant(tmp_path, ["b/page.png"], b"\n<!DOCTYPE html><html>")
    plant(tmp_path, ["b/text.jpg"], "just text, 글".encode()[:13])
    (tmp_path / "a" / "gone.jpg").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "a" / "pipe.jpg")
    data = scan(tmp_path)
    assert dict(data.bad) == {
        "a/gone.jpg": "a link that leads nowhere",
        "a/lfs.jpg": "a git-lfs pointer: the picture itself was not fetched",
        "a/null.jpg": "only zero bytes at its start, as after an interrupted copy",
        "a/pipe.jpg": "not a regular file",
        "b/page.png": "a web page or SVG, not a picture of pixels",
        "b/text.jpg": "a text file, not a picture",
    }
    assert sorted(by_name(data)) == sorted(numbered("a", 3) + numbered("b", 3))
    assert any(note.startswith("6 files are no images in spite of") for note in data.notes)


@pytest.mark.parametrize(
    "head",
    [
        JPEG,
        b"\x89PNG\r\n\x1a\n..",
        b"GIF89a",
        b"BM\x01",
        b"II*\0",
        b"MM\0*",
        b"RIFF\0\0\0\0WEBPVP8 ",
        b"P6 3",
    ],
)
def test_known_formats_pass_under_any_name(head: bytes) -> None:
    assert why_no_image(head) == ""


@pytest.mark.parametrize("head", [b"RIFF\0\0\0\0WAVE", b"\x00\x00\x00\x1cftypavif", b"\x01\x02"])
def test_other_formats_do_not(head: bytes) -> None:
    assert why_no_image(head)


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    plant(tmp_path / "store", numbered("x", 3))
    plant(tmp_path / "set", ["b/1.jpg"])
    (tmp_path / "set" / "a").symlink_to(tmp_path / "store" / "x")
    (tmp_path / "set" / "b" / "up").symlink_to(tmp_path / "set")
    (tmp_path / "set" / "b" / "me").symlink_to("me")
    (tmp_path / "set" / "b" / "2.jpg").symlink_to(tmp_path / "store" / "x" / "0.jpg")
    data = scan(tmp_path / "set")
    assert sorted(by_name(data)) == [*numbered("a", 3), "b/1.jpg", "b/2.jpg"]
    assert "1 link is not followed: back to a folder around it" in data.notes


def test_invalid_bytes_in_a_file_name_survive(tmp_path: Path) -> None:
    data = scan(plant(tmp_path, ["a/\udcb0\udca1.jpg", "a/1.jpg", "b/1.jpg"]))
    path = next(s.path for s in (*data.train, *data.val) if s.path.startswith("a/\udcb0"))
    assert Path(os.fsdecode(on_disk(data.root, path))).read_bytes() == JPEG
    assert (Path(data.root) / path).read_bytes() == JPEG
    assert "1 name is not valid UTF-8 and used byte by byte" in data.notes
    assert all(note.isprintable() for note in data.notes)


def test_a_class_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, ["\udcb0\udca1/1.jpg", "b/1.jpg"])
    with pytest.raises(RefusedError, match=r"'\\xb0\\xa1' has a name that is not valid") as caught:
        scan(tmp_path)
    assert "convmv" in caught.value.hint


def test_names_are_printable_in_messages() -> None:
    assert shown("a\udcff\n가") == "a\\xff\\n가"
    assert shown_pair("x", "y") == "'x' and 'y'"


def test_an_unreadable_folder_is_named() -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom shanty.scan.walk import walk\n"
        "if os.getuid() == 0:\n    os.seteuid(65534)  # root may read everything\n"
        "try:\n    walk(Path(sys.argv[1]))\nexcept Exception as error:\n    print(repr(error))\n"
    )
    with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to other users
        root = plant(Path(name), ["a/1.jpg", "b/1.jpg"])
        root.chmod(0o755)
        (root / "a").chmod(0)
        done = run([sys.executable, "-c", code, name], root, {})
        (root / "a").chmod(0o755)
    assert "RefusedError" in done
    assert f"the folder {name}/a cannot be read: Permission denied" in done


SCAN = """
import json, sys
from pathlib import Path
from shanty.scan.names import on_disk
from shanty.scan.training import scan_training
from shanty.spec.codec import to_dict
data = scan_training(Path(sys.argv[1]), val_fraction=0.3, seed=1, empty_class="refuse")
assert all(open(on_disk(data.root, s.path), "rb").read(3) for s in data.train)
assert sys.getfilesystemencoding() == sys.argv[2], sys.getfilesystemencoding()
print(json.dumps(to_dict(data)))
"""


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    source = str(Path(__file__).resolve().parents[2] / "src")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    done = subprocess.run(
        command,
        cwd=folder,
        env=kept | {"PYTHONPATH": source} | environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_the_same_value_under_any_locale(tmp_path: Path) -> None:
    root = tmp_path / "사진"
    plant(root, [f"{NFD}/가{i}.jpg" for i in range(5)] + [f"b/{NFC}{i}.jpg" for i in range(5)])
    plant(root, ["b/\udcff.jpg"])
    here = scan(root, val_fraction=0.3, seed=1)
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for locale, encoding in (
        ({"LC_ALL": "C.UTF-8"}, "utf-8"),
        ({"LC_ALL": "C"}, "utf-8"),
        ({"LC_ALL": "POSIX"} | plain, "ascii"),
        ({"LC_ALL": "C"} | plain, "ascii"),
    ):
        done = run([sys.executable, "-c", SCAN, str(root), encoding], tmp_path, locale)
        assert from_dict(DataSet, json.loads(done)) == here


def test_a_dirty_folder_with_korean_names(tmp_path: Path) -> None:
    """The set with one of everything where it is at hand, else one made in its image."""
    if AWKWARD.exists():
        with tarfile.open(AWKWARD) as file:
            wanted = [m for m in file if m.name.startswith("awkward/dirty_train/")]
            assert all(".." not in m.name and (m.isfile() or m.isdir()) for m in wanted)
            for member in wanted:
                content = file.extractfile(member)
                plant(
                    tmp_path,
                    [member.name + "/" * member.isdir()],
                    content.read() if content else b"",
                )
        root = tmp_path / "awkward" / "dirty_train"
    else:
        root = plant(
            tmp_path, [f"{c}/{i}.jpg" for c in ("K5_3세대", f"{NFC}", NFD, "3시리즈") for i in c]
        )
        plant(root, ["K5_3세대/html.jpg"], b"<html>")
        plant(root, ["K5_3세대/zero.jpg", "빈_클래스/", ".ipynb_checkpoints/x.jpg"], b"")
    with pytest.raises(RefusedError, match="1 class has no usable image: '빈_클래스"):
        scan(root)
    data = scan(root, empty_class="drop")
    assert len(data.classes) == 3
    assert sorted(reason for _, reason in data.bad) == [
        "a web page or SVG, not a picture of pixels",
        "empty file",
    ]
    assert any("two Unicode forms" in note for note in data.notes)
