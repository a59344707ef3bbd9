"""A task's answer, error, crash or silence each reaches the one who asked."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from launching import gone, wait_until

from shanty.cluster.here import local_node
from shanty.cluster.tasks import ask
from shanty.cluster.transport import LocalTransport
from shanty.errors import FailedError, RefusedError, UsageError
from shanty.record.atomic import read_json
from shanty.scan.dataset import DataSet, ImageList
from shanty.spec.codec import from_dict

SCAN = {"val_fraction": 0.25, "seed": 0, "empty_class": "refuse"}


def png(path: Path, grey: int) -> None:
    """A real picture of one pixel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes([0, grey]))),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in parts:
        data += struct.pack(">I", len(body)) + name + body
        data += struct.pack(">I", zlib.crc32(name + body))
    path.write_bytes(data)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for index in range(8):
        png(root / "고양이" / f"{index}.png", index)
        png(root / "dog" / f"{index}.png", 100 + index)
    return root


def asked(task: str, request: dict[str, Any], limit: float = 20) -> dict[str, Any]:
    return ask(LocalTransport(), local_node(), task, request, limit)


def fake(folder: Path, code: str) -> Any:
    """A node whose Python runs this code in place of the task."""
    program = folder / "python"
    program.write_text(f"#!{sys.executable}\nimport os, sys, time\n{code}")
    program.chmod(0o755)
    return replace(local_node(), name="n1", python=str(program))


def test_scan_answers_with_numbers_and_writes_the_set(pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "data.json"
    answer = asked("scan", SCAN | {"root": str(pictures), "out": str(out)})
    assert answer["classes"] == ["dog", "고양이"]
    assert (answer["train_per_class"], answer["val_per_class"]) == ([6, 6], [2, 2])
    found = from_dict(DataSet, read_json(out))
    assert (len(found.train), len(found.val)) == (answer["train"], answer["val"]) == (12, 4)
    assert found.digest == answer["digest"]


@pytest.mark.parametrize("locale", ["C", "POSIX", "ko_KR.EUC-KR"])
def test_names_survive_any_locale(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    (pictures / "dog" / "0.png").rename(pictures / "dog" / os.fsdecode(b"\xb0\xa1.png"))
    out = tmp_path / "data.json"
    assert asked("scan", SCAN | {"root": str(pictures)})["classes"] == ["dog", "고양이"]
    asked("scan_images", {"root": str(pictures), "out": str(out)})
    assert "dog/\udcb0\udca1.png" in read_json(out)["paths"]


def test_scan_labelled_measures_with_the_runs_classes(pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "data.json"
    request = {"root": str(pictures), "classes": ["bird", "dog", "고양이"], "out": str(out)}
    answer = asked("scan_labelled", request)
    assert (answer["train"], answer["val_per_class"]) == (0, [0, 8, 8])
    assert from_dict(DataSet, read_json(out)).classes == ("bird", "dog", "고양이")


def test_scan_images_lists_them(pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "images.json"
    answer = asked("scan_images", {"root": str(pictures), "out": str(out)})
    assert answer["count"] == 16
    assert len(from_dict(ImageList, read_json(out)).paths) == 16


def test_an_expected_error_comes_back_as_itself_with_the_nodes_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        asked("scan", SCAN | {"root": str(tmp_path / "nowhere")})
    assert str(caught.value).startswith("local: there is no folder")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RefusedError):
        asked("scan", SCAN | {"root": str(tmp_path / "empty")})


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="no task 'scna'") as caught:
        asked("scna", {})
    assert "scan" in caught.value.hint


def test_our_own_bug_is_a_crash_with_its_last_words() -> None:
    with pytest.raises(FailedError, match="exit code 4") as caught:
        asked("scan", {"root": "/"})
    assert "KeyError: 'val_fraction'" in caught.value.what


def test_what_a_task_prints_does_not_spoil_its_answer(tmp_path: Path) -> None:
    code = """
import os
from shanty.task import __main__ as door
from shanty.task import scan
def run(request):
    print('{"answer": "mine"}')
    os.system("echo '{}'")
    return {"n": 1}
scan.run = run
raise SystemExit(door.main(["scan"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"{}", capture_output=True, check=True, cwd=tmp_path
    )
    assert done.stdout == b'{"answer": {"n": 1}}\n'
    assert b"mine" in done.stderr


def test_progress_lines_before_the_answer_are_passed_over(tmp_path: Path) -> None:
    node = fake(tmp_path, """print('{"progress": 0.5}\\n{"answer": {"n": 2}}')""")
    assert ask(LocalTransport(), node, "scan", {}, 5) == {"n": 2}


def test_silence_ends_at_the_limit_and_nothing_is_left(tmp_path: Path) -> None:
    code = (
        "import subprocess\nc = subprocess.Popen(['sleep', '60'])\nprint(c.pid, file=sys.stderr)\n"
    )
    node = fake(tmp_path, code + "sys.stderr.flush()\ntime.sleep(60)")
    begin = time.monotonic()
    with pytest.raises(FailedError, match=r"n1: .* did not answer within 1 s") as caught:
        ask(LocalTransport(), node, "scan", {}, 1)
    assert time.monotonic() - begin < 5
    child = int(caught.value.what.splitlines()[-1])
    wait_until(lambda: gone(child), limit=5)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("print('words', file=sys.stderr)\nsys.exit(1)", r"exit code 1\n    words"),
        ("os.kill(os.getpid(), 11)", "signal 11"),
        ("print('no json')", "exit code 0"),
        ("print('{\"answer\": {}}', flush=True)\nsys.exit(5)", "exit code 5"),
    ],
)
def test_a_crash_is_told_with_the_node(tmp_path: Path, code: str, says: str) -> None:
    with pytest.raises(FailedError, match=says) as caught:
        ask(LocalTransport(), fake(tmp_path, code), "scan", {}, 10)
    assert caught.value.node == "n1"


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    node = replace(local_node(), python=str(tmp_path / "python9"))
    with pytest.raises(FailedError, match=r"cannot start .*python9"):
        ask(LocalTransport(), node, "scan", {}, 5)


def test_a_file_in_the_current_folder_is_not_taken_for_a_module(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.version_info < (3, 11):
        return  # before 3.11 Python has no way to ask for that
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(tmp_path)
    assert asked("scan", SCAN | {"root": str(pictures)})["train"] == 12


def test_the_answer_is_one_line_of_ascii(pictures: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shanty.task", "scan"],
        input=json.dumps(SCAN | {"root": str(pictures)}).encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.count(b"\n") == 1
    assert done.stdout.isascii()
    assert done.stderr == b""
