"""A real sshd of the test's own: high port, own keys, own HOME; the machine's is left alone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from shanty.spec.cluster import Node

SERVER = "/usr/sbin/sshd"

_SERVER_CONFIG = """
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
SetEnv HOME={folder}/home
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
_CLIENT_CONFIG = """
UserKnownHostsFile {known}
GlobalKnownHostsFile /dev/null
IdentityFile {key}
IdentitiesOnly yes
IdentityAgent none
HashKnownHosts no
"""


@dataclass(frozen=True)
class Server:
    """Where it listens, and the folder with its keys and its HOME."""

    folder: Path
    port: int

    @property
    def node(self) -> Node:
        return Node(name="n1", address="127.0.0.1", port=self.port)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def label(self) -> str:
        return f"[127.0.0.1]:{self.port}"

    def config(self, folder: Path, *, key: str = "me", known: str = "host", more: str = "") -> str:
        """A config of ssh; ``known`` names the key that known_hosts believes in, if any."""
        hosts = folder / "known_hosts"
        hosts.write_text(f"{self.label} {public(self.folder / known)}\n" if known else "")
        text = _CLIENT_CONFIG.format(known=hosts, key=self.folder / key)
        path = folder / "ssh_config"
        path.write_text(f"{more}\nHost *\n{text}")
        return str(path)


def public(key: Path) -> str:
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


@contextmanager
def serving(folder: Path) -> Generator[Server]:
    """Make keys, start sshd, end exactly it. Skips where there is no sshd."""
    if not Path(SERVER).exists():
        pytest.skip("no sshd here: apt-get install openssh-server")
    for name in ("host", "me", "other"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(make, check=True)
    shutil.copy(folder / "me.pub", folder / "authorized")
    (folder / "home").mkdir()
    (folder / "sshd_config").write_text(_SERVER_CONFIG.format(folder=folder))
    server = Server(folder=folder, port=_free_port())
    words = [SERVER, "-D", "-e", "-f", str(folder / "sshd_config"), "-p", str(server.port)]
    if os.geteuid() == 0:  # as root it wants a folder in /run; it gets one that only it can see
        own = 'mount -t tmpfs none /run && mkdir /run/sshd && exec "$@"'
        words = ["unshare", "-m", "sh", "-c", own, "sh", *words]
    with (folder / "sshd.log").open("wb") as log, subprocess.Popen(words, stderr=log) as process:
        try:
            _wait_for(server, process)
            yield server
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(server: Server, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 10
    log = server.folder / "sshd.log"
    while b"Server listening" not in log.read_bytes():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end
        time.sleep(0.02)
