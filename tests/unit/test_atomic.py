"""Files that are whole or not there: shown on full disks, by kills, and from the outside."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from shanty.record.atomic import TEMP_MARK, read_json, temp_beside, write_bytes, write_json

LIMITED = """
import resource, sys
from pathlib import Path
from shanty.record.atomic import write_bytes
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_bytes(Path(sys.argv[1]), b"n" * 5000)
except OSError as error:
    print(error.errno)
"""
FULL = """
import sys
from pathlib import Path
from shanty.record.atomic import write_bytes
path = Path(sys.argv[1])
write_bytes(path, b"old")
try:
    write_bytes(path, b"n" * 500_000)
except OSError as error:
    print(error.errno, path.read_bytes() == b"old", len(list(path.parent.iterdir())))
"""
FOR_EVER = """
import sys
from pathlib import Path
from shanty.record.atomic import write_json
for number in range(10**9):
    write_json(Path(sys.argv[1]), {"number": number, "filling": [number] * 3000})
    if number == 0:
        print("ready", flush=True)
"""


def run_python(code: str, *arguments: str, before: tuple[str, ...] = ()) -> str:
    command = [*before, sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_file_is_replaced_and_no_temp_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_bytes(path, b"old")
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_that_is_not_utf8_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9 \xea\xb3\xa0.json")
    write_json(path, {"path": str(path)})
    assert read_json(path) == {"path": str(path)}
    assert [os.fsencode(p.name) for p in tmp_path.iterdir()] == [b"caf\xe9 \xea\xb3\xa0.json"]


@pytest.mark.parametrize("text", ["고양이", "\udcff", "a\u2028b\n\x00", "e\u0301"])
def test_text_comes_back_as_it_was_and_can_be_read_in_an_editor(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {text: [text, None, 1.5]})
    assert read_json(path) == {text: [text, None, 1.5]}
    assert path.read_bytes().endswith(b"}\n")
    readable = text.replace("\n", "\\n").replace("\x00", "\\u0000")
    assert readable.encode("utf-8", "surrogateescape") in path.read_bytes()


@pytest.mark.parametrize("mode", [0o600, 0o666, 0o644])
def test_the_mode_is_the_asked_one_less_the_umask(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o777)
    before = os.umask(0o027)
    try:
        write_json(path, {}, mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode & ~0o027


def test_what_is_no_json_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"old": True})
    with pytest.raises(TypeError):
        write_json(path, {"new": object()})
    assert read_json(path) == {"old": True}
    assert list(tmp_path.iterdir()) == [path]


def test_a_target_that_cannot_be_replaced_leaves_no_temp(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_bytes(tmp_path / "folder", b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
    with pytest.raises(FileNotFoundError):
        write_bytes(tmp_path / "missing" / "a", b"x")


def test_a_write_that_fails_half_way_leaves_the_old_file_and_no_temp(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    assert run_python(LIMITED, str(path)) == str(errno.EFBIG)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_and_no_temp(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mount = f'mount -t tmpfs -o size=100k none {tmp_path} && exec "$@"'
    said = run_python(FULL, str(tmp_path / "a"), before=("unshare", "-m", "sh", "-c", mount, "sh"))
    assert said == f"{errno.ENOSPC} True 1"


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, [0] * 5000)
    seen, done = set(), threading.Event()

    def write_all() -> None:
        for number in range(1, 60):
            write_json(path, [number] * 5000)
        done.set()

    writer = threading.Thread(target=write_all)
    writer.start()
    while not done.is_set():
        numbers = read_json(path)
        assert len(numbers) == 5000
        assert len(set(numbers)) == 1
        seen.add(numbers[0])
    writer.join()
    assert len(seen) > 5
    assert read_json(path)[0] == 59


@pytest.mark.parametrize("delay", [0.0, 0.013, 0.05])
def test_a_killed_writer_leaves_a_whole_file_and_at_most_one_temp(
    delay: float, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    with subprocess.Popen([sys.executable, "-c", FOR_EVER, str(path)], stdout=-1) as writer:
        assert writer.stdout
        writer.stdout.readline()
        threading.Event().wait(delay)
        writer.send_signal(signal.SIGKILL)
    whole = json.loads(path.read_bytes())
    assert whole["filling"] == [whole["number"]] * 3000
    assert len(list(tmp_path.glob(f"{TEMP_MARK}*"))) <= 1


def test_data_is_on_the_disk_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are really made, and written down: file flushed, renamed, folder flushed."""
    path = tmp_path / "a.json"
    steps: list[tuple[str, bool]] = []
    really = os.fsync

    def flush(fd: int) -> None:
        really(fd)
        steps.append((Path(f"/proc/self/fd/{fd}").readlink().name, path.exists()))

    monkeypatch.setattr(os, "fsync", flush)
    write_json(path, {})
    assert steps == [(temp_beside(path).name, False), (tmp_path.name, True)]


def test_the_temp_lies_beside_its_file_and_names_its_process() -> None:
    temp = temp_beside(Path("/runs/x/run.json"))
    assert temp == Path(f"/runs/x/{TEMP_MARK}run.json.{os.getpid()}")
