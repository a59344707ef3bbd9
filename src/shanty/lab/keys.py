"""The lab's own ssh keys, and the files that make ``ssh n1`` work without a question."""

from __future__ import annotations

import subprocess
from pathlib import Path

from shanty.errors import FailedError
from shanty.lab.needs import program
from shanty.lab.state import Host, Lab

_CONFIG = """\
Host {names}
  User {user}
  IdentityFile {folder}/id
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""
_SSHD = """\
ListenAddress {host.address}:22
HostKey {folder}/etc/host_key
PidFile {folder}/etc/sshd.pid
AuthorizedKeysFile .ssh/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowUsers {user}
UsePAM no
UseDNS no
PrintMotd no
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
SetEnv PATH={folder}/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""


def make_keys(lab: Lab) -> None:
    """One key to log in with, one host key per board; ssh_config and known_hosts beside them."""
    make_key(lab.folder / "id")
    for board in lab.boards:
        make_key(host_key(lab, board))
    (lab.folder / "known_hosts").write_text(known_hosts(lab))
    (lab.folder / "ssh_config").write_text(ssh_config(lab))


def make_key(path: Path) -> None:
    """A new ed25519 key without a passphrase."""
    words = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "shanty-lab", "-f"]
    done = subprocess.run(  # noqa: S603 - our own words
        [*words, str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    if done.returncode:
        raise FailedError(f"ssh-keygen: {done.stderr.strip()}", hint="look for a full /run")


def host_key(lab: Lab, board: Host) -> Path:
    """Where a board's host key lies; it stays the same when the board is booted anew."""
    return lab.folder / f"host_key.{board.name}"


def public(path: Path) -> str:
    """Kind and key, without the comment."""
    return " ".join(path.with_name(path.name + ".pub").read_text().split()[:2])


def known_hosts(lab: Lab) -> str:
    """One line per board, by name and by address."""
    lines = [f"{b.name},{b.address} {public(host_key(lab, b))}\n" for b in lab.boards]
    return "".join(lines)


def ssh_config(lab: Lab) -> str:
    """What ssh must know of the boards."""
    lines = [f"Host {board.name}\n  HostName {board.address}\n" for board in lab.boards]
    names = " ".join(f"{board.name} {board.address}" for board in lab.boards)
    body = _CONFIG.format(names=names, user=lab.login.name, folder=lab.folder)
    return "".join(lines) + body


def sshd_config(lab: Lab, host: Host) -> str:
    """A board's sshd: keys only, one user only."""
    return _SSHD.format(host=host, folder=lab.folder, user=lab.login.name)
