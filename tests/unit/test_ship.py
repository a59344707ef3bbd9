"""shanty's code on a node that has none: sent once, whole or not there, and it runs."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sshd import Server, serving

import shanty
from shanty.cluster import unpack
from shanty.cluster.ship import Code, pack, ship, with_code
from shanty.cluster.ssh import SshTransport
from shanty.cluster.tasks import ask
from shanty.errors import FailedError, RefusedError
from shanty.spec.cluster import Node

PACKAGE = Path(shanty.__file__).parent


def by_node(home: Path, verb: str, code: Code, stdin: bytes = b"") -> dict[str, Any]:
    """What a node's Python answers, with this HOME."""
    text = Path(unpack.__file__).read_text()
    command = [sys.executable, "-I", "-c", text, verb, code.digest]
    env = os.environ | {"HOME": str(home)}
    done = subprocess.run(command, input=stdin, env=env, capture_output=True, check=True)
    return json.loads(done.stdout)


def small(folder: Path) -> Path:
    """A tiny package."""
    (folder / "pkg" / "room" / "__pycache__").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("x = 1\n")
    (folder / "pkg" / "room" / "a b.py").write_text("y = '가'\n")
    (folder / "pkg" / "room" / "__pycache__" / "a.pyc").write_bytes(b"no")
    (folder / "pkg" / ".a.py.swp").write_bytes(b"no")
    return folder / "pkg"


def tar_of(*members: tarfile.TarInfo) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return whole.getvalue()


def test_equal_sources_give_equal_bytes_wherever_they_lie(tmp_path: Path) -> None:
    one = small(tmp_path / "1")
    shutil.copytree(one, tmp_path / "2" / "pkg")
    os.utime(tmp_path / "2" / "pkg" / "__init__.py", (0, 0))
    (tmp_path / "2" / "pkg" / "__init__.py").chmod(0o600)
    assert pack(one) == pack(tmp_path / "2" / "pkg")
    (one / "__init__.py").write_text("x = 2\n")
    assert pack(one).digest != pack(tmp_path / "2" / "pkg").digest


def test_only_sources_travel(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(small(tmp_path)).packed)) as tar:
        assert tar.getnames() == ["pkg/__init__.py", "pkg/room/a b.py"]


def test_all_of_shantys_sources_travel() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack().packed)) as tar:
        names = set(tar.getnames())
    there = {f"shanty/{p.relative_to(PACKAGE).as_posix()}" for p in PACKAGE.rglob("*.py")}
    assert there <= names
    assert "shanty/py.typed" in names


def test_taken_once_then_found_until_a_byte_changes(tmp_path: Path) -> None:
    code, home = pack(small(tmp_path)), tmp_path / "home"
    home.mkdir()
    assert by_node(home, "look", code) == {"path": None}
    path = by_node(home, "take", code, code.packed)["path"]
    assert path == str(home / ".cache/shanty/code" / code.digest)
    assert (Path(path) / "pkg" / "room" / "a b.py").read_text() == "y = '가'\n"
    (Path(path) / "pkg" / "__pycache__").mkdir()  # Python makes these; they do not count
    (Path(path) / "pkg" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert by_node(home, "look", code) == {"path": path}
    (Path(path) / "pkg" / "__init__.py").write_text("evil\n")
    assert by_node(home, "look", code) == {"path": None}
    assert by_node(home, "take", code, code.packed) == {"path": path}
    assert (Path(path) / "pkg" / "__init__.py").read_text() == "x = 1\n"
    assert [p.name for p in Path(path).parent.iterdir()] == [code.digest]


def test_what_does_not_arrive_whole_is_not_put_there(tmp_path: Path) -> None:
    code = pack(small(tmp_path))
    plain = gzip.decompress(code.packed)
    half = gzip.compress(plain[: plain.index(b"pkg/room")] + bytes(1024))
    for sent in (code.packed[:120], half, code.packed[:-4] + b"1234", b"", b"junk"):
        told = by_node(tmp_path, "take", code, sent)
        assert set(told) == {"error", "fix"}, sent
        assert by_node(tmp_path, "look", code) == {"path": None}
    assert list((tmp_path / ".cache/shanty/code").iterdir()) == []


@pytest.mark.parametrize("name", ["../out.py", "/tmp/out.py", "pkg/../../out.py"])  # noqa: S108
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    member = tarfile.TarInfo(name)
    member.size = 3
    told = by_node(tmp_path, "take", Code(digest="0" * 64, packed=b""), tar_of(member))
    assert "odd name" in told["error"]
    assert not list(tmp_path.rglob("out.py"))


def test_a_link_is_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo("pkg/link.py")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    told = by_node(tmp_path, "take", Code(digest="0" * 64, packed=b""), tar_of(link))
    assert "odd name" in told["error"]


def test_a_cache_that_cannot_be_written_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("a file where a folder should be")
    code = pack(small(tmp_path))
    told = by_node(tmp_path, "take", code, code.packed)
    assert told["error"].startswith(f"cannot write {tmp_path}/.cache/shanty/code: ")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture
def node(server: Server, tmp_path: Path) -> Node:
    """A node whose Python has the standard library only."""
    bare = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")]
    subprocess.run(bare, check=True)
    return replace(server.node, python=str(tmp_path / "bare" / "bin" / "python"))


@pytest.fixture
def transport(server: Server, node: Node, tmp_path: Path) -> SshTransport:
    return SshTransport(node, config=server.config(tmp_path))


def test_a_node_without_shanty_runs_the_code_that_was_sent(
    transport: SshTransport, node: Node, server: Server
) -> None:
    show = [node.python, "-c", "import shanty; print(shanty.__file__)"]
    assert b"No module named 'shanty'" in transport.run(show, stdin=b"", limit=20).stderr
    code = pack()
    sent = with_code(transport, node, code)
    where = server.home / ".cache" / "shanty" / "code" / code.digest
    assert sent.run(show, stdin=b"", limit=20).stdout.decode().strip() == (
        f"{where}/shanty/__init__.py"
    )
    with pytest.raises(RefusedError, match="n1: this Python has no torch"):
        ask(sent, node, "preflight", {"full": False}, limit=20)
    done = sent.run([node.python, "-m", "shanty.agent", "--help"], stdin=b"", limit=20)
    assert done.code == 0, done.stderr


def test_the_second_time_nothing_is_sent(transport: SshTransport, node: Node) -> None:
    code = pack()
    path = ship(transport, node, code)
    assert ship(transport, node, Code(digest=code.digest, packed=b"never read")) == path


def test_a_node_without_that_python_is_told(transport: SshTransport, node: Node) -> None:
    with pytest.raises(FailedError, match="n1: there is no python9"):
        ship(transport, replace(node, python="python9"), pack())
    with pytest.raises(FailedError, match="n1: its Python false cannot take"):
        ship(transport, replace(node, python="false"), pack())


def test_a_full_or_blocked_home_is_told(
    transport: SshTransport, node: Node, server: Server
) -> None:
    shutil.rmtree(server.home / ".cache", ignore_errors=True)
    (server.home / ".cache").write_text("")
    try:
        with pytest.raises(RefusedError, match=r"n1: cannot write .*/\.cache/shanty/code"):
            ship(transport, node, pack())
    finally:
        (server.home / ".cache").unlink()
