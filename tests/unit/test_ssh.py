"""The ssh transport against a real sshd: calls, limits, detached processes, every way to fail."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from launching import gone, wait_until
from sshd import Server, serving

from shanty.cluster.reach import control_folder, reach
from shanty.cluster.ssh import SshTransport
from shanty.cluster.ssh_trouble import Trouble
from shanty.cluster.transport import LocalTransport
from shanty.errors import FailedError, RefusedError
from shanty.record.process import alive
from shanty.spec.cluster import Node

# The sshd process that serves a command: above the command, its shell and the time limit.
_END_CONNECTION = """
import os
pid = os.getpid()
for _ in range(3):
    stat = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    pid = int(stat[1])
print("killing", flush=True)
os.kill(pid, 9)
__import__("time").sleep(60)
"""
_OPERATOR = """
import sys
from shanty.cluster.ssh import SshTransport
from shanty.spec.cluster import Node
node = Node(name="n1", address="127.0.0.1", port=int(sys.argv[1]))
script = "echo $$ >$0.part; mv $0.part $0; sleep 300"
transport = SshTransport(node, config=sys.argv[2])
transport.run(["sh", "-c", script, sys.argv[3]], stdin=b"", limit=60)
"""
ODD = ["a b", "x\ny", "'\"`$HOME\\", "-o", "--", "", "한글", "*", "!x", "\t"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture(params=["shared", "each"])
def transport(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path, sockets: Path
) -> Iterator[SshTransport]:
    """The same tests with one shared connection, and with a connection per call."""
    control = sockets if request.param == "shared" else None
    found = SshTransport(server.node, config=server.config(tmp_path), control=control)
    yield found
    found.close()


@pytest.fixture
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short folder: the path of a Unix socket is short."""
    folder = tmp_path_factory.mktemp("c")
    folder.chmod(0o700)
    return folder


def python(transport: SshTransport, code: str, *words: str, stdin: bytes = b"") -> bytes:
    result = transport.run([sys.executable, "-c", code, *words], stdin=stdin, limit=30)
    assert result.code == 0, result.stderr
    return result.stdout


def test_words_and_stdin_arrive_as_they_are(transport: SshTransport) -> None:
    code = "import sys; print(ascii(sys.argv[1:])); print(ascii(sys.stdin.read()))"
    stdin = b"line\nexit 1\n" + b"x" * 300_000
    out = python(transport, code, *ODD, stdin=stdin).decode().splitlines()
    assert out == [ascii(ODD), ascii(stdin.decode())]


def test_stdout_stderr_and_code_are_the_commands_own(transport: SshTransport) -> None:
    result = transport.run(["sh", "-c", "echo out; echo err >&2; exit 7"], stdin=b"", limit=10)
    assert (result.code, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
    assert transport.run(["sh", "-c", "exit 255"], stdin=b"", limit=10).code == 255


def test_a_signal_is_told_as_one(transport: SshTransport) -> None:
    assert transport.run(["sh", "-c", "kill -9 $$"], stdin=b"", limit=10).code == -9


def test_what_the_shells_start_files_print_is_cut_off(
    transport: SshTransport, server: Server
) -> None:
    (server.home / ".bashrc").write_text("echo welcome to the board\n")
    try:
        assert python(transport, "print('answer')") == b"answer\n"
    finally:
        (server.home / ".bashrc").unlink()


def test_variables_of_ours_reach_every_command(transport: SshTransport) -> None:
    code = "import os; print(os.environ['PYTHONUTF8'], os.environ['X'], os.environ['PYTHONPATH'])"
    other = transport.using({"X": "a 'b'", "PYTHONPATH": "/code"})
    assert python(other, code) == b"1 a 'b' /code\n"


def test_a_program_below_home_is_found(transport: SshTransport, server: Server) -> None:
    program = server.home / "a tool"
    program.write_text("#!/bin/sh\necho found $1\n")
    program.chmod(0o755)
    assert transport.run(["~/a tool", "~/x"], stdin=b"", limit=10).stdout == b"found ~/x\n"


def test_a_program_that_is_not_there_is_named(transport: SshTransport) -> None:
    with pytest.raises(FailedError, match="n1: there is no nosuch"):
        transport.run(["nosuch"], stdin=b"", limit=10)
    with pytest.raises(FailedError, match="n1: there is no nosuch"):
        transport.start(["nosuch"], log=Path("/dev/null"))


def test_over_the_limit_everything_that_was_started_ends(
    transport: SshTransport, tmp_path: Path
) -> None:
    script = 'sleep 300 & echo $! >"$0/a"; setsid sleep 300 & echo $! >"$0/b"; echo said; wait'
    begin = time.monotonic()
    result = transport.run(["sh", "-c", script, str(tmp_path)], stdin=b"", limit=2)
    assert time.monotonic() - begin < 8
    assert (result.code, result.stdout) == (None, b"said\n")
    for name in ("a", "b"):
        pid = int((tmp_path / name).read_text())
        wait_until(lambda pid=pid: gone(pid), limit=5)


def test_ctrl_c_ends_the_command_on_the_node(server: Server, tmp_path: Path) -> None:
    words = [sys.executable, "-c", _OPERATOR, str(server.port), server.config(tmp_path)]
    with subprocess.Popen([*words, str(tmp_path / "pid")], stderr=subprocess.DEVNULL) as operator:
        wait_until((tmp_path / "pid").exists, limit=20)
        operator.send_signal(signal.SIGINT)
        operator.wait(15)
    wait_until(lambda: gone(int((tmp_path / "pid").read_text())), limit=5)


def test_a_started_process_survives_its_connection(transport: SshTransport, tmp_path: Path) -> None:
    log = tmp_path / "a log"
    process = transport.start(["sh", "-c", "echo hello; sleep 300"], log=log)
    assert alive(process)  # it is this machine, so the proof can be compared
    wait_until(lambda: os.getsid(process.pid) == process.pid)
    transport.close()
    with pytest.raises(FailedError):
        transport.run([sys.executable, "-c", _END_CONNECTION], stdin=b"", limit=20)
    assert transport.alive(process)
    assert log.read_text() == "hello\n"
    assert transport.send(process, signal.SIGTERM)
    wait_until(lambda: not alive(process))
    assert not transport.alive(process)
    assert not transport.send(process, signal.SIGTERM)


def test_a_started_process_inherits_nothing_that_would_end_it(
    transport: SshTransport, tmp_path: Path
) -> None:
    process = transport.start(["sh", "-c", "env; sleep 300"], log=tmp_path / "log")
    try:
        wait_until(lambda: "PYTHONUTF8=1" in (tmp_path / "log").read_text())
        assert "SHANTY_" not in (tmp_path / "log").read_text()
    finally:
        assert transport.send(process, signal.SIGKILL)


def test_only_the_proven_process_is_signalled(transport: SshTransport, tmp_path: Path) -> None:
    process = transport.start(["sleep", "300"], log=tmp_path / "log")
    try:
        for other in (
            replace(process, start=process.start - 1),
            replace(process, boot="x"),
            replace(process, host="x y"),
        ):
            assert not transport.alive(other)
            assert not transport.send(other, signal.SIGKILL)
        assert transport.alive(process)
    finally:
        assert transport.send(process, signal.SIGKILL)


def test_a_process_that_ends_at_once_is_gone_and_its_words_are_kept(
    transport: SshTransport, tmp_path: Path
) -> None:
    process = transport.start(["sh", "-c", "echo last words"], log=tmp_path / "log")
    wait_until(lambda: not transport.alive(process))
    assert (tmp_path / "log").read_text() == "last words\n"


def test_a_log_that_cannot_be_written_is_told(transport: SshTransport, tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="n1: cannot write"):
        transport.start(["sleep", "1"], log=tmp_path / "no" / "log")


def test_a_lost_connection_is_told_and_the_next_call_connects_anew(
    transport: SshTransport,
) -> None:
    with pytest.raises(FailedError, match="n1: the connection was lost"):
        transport.run([sys.executable, "-c", _END_CONNECTION], stdin=b"", limit=20)
    assert python(transport, "print(1)") == b"1\n"


def test_one_connection_serves_all_calls(server: Server, tmp_path: Path, sockets: Path) -> None:
    transport = SshTransport(server.node, config=server.config(tmp_path), control=sockets)
    log = server.folder / "sshd.log"
    before = log.read_text().count("Accepted publickey")
    assert python(transport, "print(1)") == python(transport, "print(1)") == b"1\n"
    assert log.read_text().count("Accepted publickey") == before + 1
    assert list(sockets.iterdir())
    transport.close()
    wait_until(lambda: not list(sockets.iterdir()))


def test_without_sockets_it_works_all_the_same(server: Server, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    transport = SshTransport(server.node, config=server.config(tmp_path), control=missing)
    assert python(transport, "print(1)") == b"1\n"


def test_a_jump_host_and_names_from_the_config_are_honoured(server: Server, tmp_path: Path) -> None:
    near = f"Host near far\n HostName 127.0.0.1\n Port {server.port}\nHost far\n ProxyJump near\n"
    node = Node(name="far", address="far")
    transport = SshTransport(node, config=server.config(tmp_path, more=near))
    assert python(transport, "print('through')") == b"through\n"


@contextmanager
def within(seconds: float) -> Generator[None]:
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < seconds


def trouble_of(node: Node, config: str) -> Trouble:
    """What is wrong, found in time and without a question."""
    with within(15):
        found = SshTransport(node, config=config).trouble()
    assert found is not None
    with pytest.raises(RefusedError) as told:
        SshTransport(node, config=config).connect()
    assert str(told.value).startswith(f"{node.name}: {found.what}\n  fix: ")
    assert len(str(told.value).splitlines()) <= 5
    return found


def test_an_unknown_key_is_refused_and_not_learnt(server: Server, tmp_path: Path) -> None:
    config = server.config(tmp_path, known="")
    found = trouble_of(server.node, config)
    assert found.kind == "unknown key"
    assert server.label in found.what
    accept = f"ssh -F {config} -p {server.port} 127.0.0.1 true"
    assert found.fix.splitlines()[0].endswith(accept)
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in found.fix
    assert (tmp_path / "known_hosts").read_text() == ""


def test_a_changed_key_is_refused_and_the_fix_removes_it(server: Server, tmp_path: Path) -> None:
    config = server.config(tmp_path, known="other")
    found = trouble_of(server.node, config)
    assert found.kind == "changed key"
    remove = found.fix.splitlines()[0].removeprefix("if it was set up anew: ")
    subprocess.run(shlex.split(remove), check=True, capture_output=True)
    assert trouble_of(server.node, config).kind == "unknown key"


def test_a_refused_key_and_a_wrong_user_are_named(server: Server, tmp_path: Path) -> None:
    found = trouble_of(server.node, server.config(tmp_path, key="other"))
    assert found.kind == "refused login"
    wrong = trouble_of(replace(server.node, user="nosuch"), server.config(tmp_path))
    assert wrong.kind == "refused login"
    assert "login as nosuch: wrong user" in wrong.what


def test_a_closed_port_is_named(server: Server, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take it
        port = taken.getsockname()[1]
        found = trouble_of(replace(server.node, port=port), server.config(tmp_path))
    assert found.kind == "closed port"
    assert f"nothing listens on 127.0.0.1 port {port}" in found.what


def test_a_name_that_does_not_resolve_is_named(server: Server, tmp_path: Path) -> None:
    node = Node(name="n9", address="nosuch.invalid")
    assert trouble_of(node, server.config(tmp_path)).kind == "no such name"


def test_a_node_that_never_answers_is_named_in_time(server: Server, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, within(15):
        node = replace(server.node, port=silent.getsockname()[1])
        found = SshTransport(node, config=server.config(tmp_path)).trouble()
    assert found is not None
    assert found.kind == "no answer"


def test_a_login_that_lets_no_command_run_is_named(server: Server, tmp_path: Path) -> None:
    (server.home / ".bashrc").write_text("echo this account is for files only\nexit 1\n")
    try:
        found = trouble_of(server.node, server.config(tmp_path))
    finally:
        (server.home / ".bashrc").unlink()
    assert found.kind == "no shell"
    assert "this account is for files only" in found.what


def test_the_config_is_named_when_ssh_does_not_accept_it(server: Server, tmp_path: Path) -> None:
    config = server.config(tmp_path, more="NoSuchOption yes")
    found = trouble_of(server.node, config)
    assert found.kind == "config"
    assert f"{config}, line 1" in found.what


def test_without_an_ssh_program_the_package_is_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = server.config(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = trouble_of(server.node, config)
    assert (found.kind, found.fix) == ("no ssh", "apt-get install openssh-client")


def test_this_machine_needs_no_ssh() -> None:
    assert isinstance(reach(Node(address="local")), LocalTransport)
    assert isinstance(reach(Node(address="127.0.0.1")), SshTransport)


def test_the_folder_of_sockets_is_ours_alone(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(sockets))
    ours = sockets / "shanty"
    assert control_folder() == ours
    assert ours.stat().st_mode & 0o777 == 0o700
    ours.chmod(0o755)  # others could look in: not used
    assert control_folder() != ours
    ours.rmdir()
    ours.symlink_to(sockets)
    assert control_folder() != ours
    long = sockets / ("x" * 60)  # too long for a socket
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    assert control_folder() != long / "shanty"
