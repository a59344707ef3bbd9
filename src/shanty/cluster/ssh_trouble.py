"""What OpenSSH's own words mean when it cannot reach a node, and the command that mends it. Pure.

ssh is always started with LogLevel=ERROR, so these texts come whatever the person's config says.
Collected from OpenSSH 7.6 to 9.9; strerror texts of Linux and macOS.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import Literal

from shanty.spec.cluster import Node

Kind = Literal[
    "changed key",
    "unknown key",
    "key file",
    "refused login",
    "config",
    "negotiation",
    "no such name",
    "closed port",
    "no answer",
    "hung up",
    "no shell",
    "no ssh",
    "other",
]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why a node is out of reach: ``fix`` names the command to run, ``said`` is ssh's own text."""

    kind: Kind
    what: str
    fix: str
    said: str = ""


_LINE = "\n       "
_ACCEPT = _LINE + "then accept the new key: {ssh} true"
_USER = "or name the right user, USER@{host}; a key with a passphrase needs ssh-add first"
_COMPARE = "accept it once, comparing the fingerprint: {ssh} true"

# Kind, what ssh says, what we say, the fix. The first match wins, so causes come before their
# consequences. {ssh} is the command line a person would type, {0} {1} are the groups.
_WORDS: tuple[tuple[Kind, str, str, str], ...] = (
    (
        "changed key",
        r"Offending \S+ key in (.+):\d+(?:.*\n)+?Host key for (\S+) has changed",
        "another host key than before: the board was set up anew, or it is another machine",
        "if it was set up anew: ssh-keygen -f {0} -R {1}" + _ACCEPT,
    ),
    (
        "changed key",
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|REVOKED HOST KEY DETECTED",
        "another host key than before: the board was set up anew, or it is another machine",
        "if it was set up anew: ssh-keygen -R {host}" + _ACCEPT,
    ),
    (
        "unknown key",
        r"No (\S+) host key is known for (\S+) and you have requested strict",
        "its host key is not known here yet ({1})",
        _COMPARE + _LINE + "on the board: ssh-keygen -lf /etc/ssh/ssh_host_{0}_key.pub",
    ),
    (
        "unknown key",
        r"Host key verification failed",
        "its host key, or that of a jump host before it, is not known here yet",
        _COMPARE,
    ),
    (
        "key file",
        r"Permissions \d+ for '(.+)' are too open",
        "ssh will not use the private key {0}: others could read it",
        "chmod 600 {0}",
    ),
    (
        "config",
        r"(.+?)(?:: line |line )(\d+): (?:Bad configuration option|.*[Bb]ad )",
        "ssh does not accept its config {0}, line {1}",
        "mend that line; to see it fail: ssh -G {host}",
    ),
    (
        "config",
        r"(Can't open user config file .+|Bad owner or permissions on .+)",
        "ssh does not accept its config: {0}",
        "check the path; a config belongs to you: chmod 600 ~/.ssh/config",
    ),
    (
        "refused login",
        r"Too many authentication failures",
        "it refused the login: too many keys were offered before the right one",
        "name the key: in ~/.ssh/config, below Host {host}: IdentityFile and IdentitiesOnly yes",
    ),
    (
        "refused login",
        r"(\S+)@\S+: Permission denied \(.*(?:password|keyboard-interactive).*\)",
        "it refused the login as {0}: wrong user, or your key is not there",
        "{copy}" + _LINE + _USER,
    ),
    (
        "refused login",  # it takes no password either, so ssh-copy-id cannot help
        r"(\S+)@\S+: Permission denied",
        "it refused the login as {0}: wrong user, or your key is not there",
        "on the board, as {0}: add your ~/.ssh/id_*.pub to ~/.ssh/authorized_keys" + _LINE + _USER,
    ),
    (
        "negotiation",
        r"Unable to negotiate with \S+ port \d+: (.+)",
        "its ssh is too old or too new for this one: {0}",
        "update openssh-server there, or allow its offer in ~/.ssh/config, below Host {host}",
    ),
    (
        "no such name",
        r"Could not resolve hostname (\S+):",
        "the name {0} does not resolve to an address",
        "give its number: on the board type hostname -I, then use that address",
    ),
    (
        "closed port",
        r"open failed: connect failed: (.+)|stdio forwarding failed",
        "the jump host cannot reach it: {0}",
        "check address and port; on the board: sudo systemctl enable --now ssh",
    ),
    (
        "closed port",
        r"connect to host (\S+) port (\d+): Connection refused",
        "nothing listens on {0} port {1}",
        "on the board: sudo systemctl enable --now ssh; or give the right port, {host}:PORT",
    ),
    (
        "no answer",
        r"connect to host (\S+) port (\d+): (.+)",
        "no answer from {0} port {1}: {2}",
        "is it on, and on this network? ping -c 3 {0}",
    ),
    (
        "no answer",
        r"timed out|Timeout, server",
        "no answer: the connection timed out",
        "is it on, and on this network? ping -c 3 {host}",
    ),
    (
        "hung up",
        r"kex_exchange_identification|Connection (?:closed|reset) by|ssh_exchange_identification",
        "it hangs up before the login",
        "on the board: sudo journalctl -u ssh -n 20 (a ban of this address, or too many logins)",
    ),
)


def diagnose(said: str, node: Node, config: str = "") -> Trouble:
    """What is wrong, told from ssh's stderr.

    ``config``: the config file that ssh was given with -F, so that the fix uses it as well.
    """
    said = said.replace("\r", "")
    for kind, pattern, what, fix in _WORDS:
        if match := re.search(pattern, said):
            raw = [group or "" for group in match.groups()]
            names = _names(node, config)
            quoted = [shlex.quote(text) for text in raw]
            if kind == "unknown key" and raw:
                quoted[0] = raw[0].lower()
            filled = fix.format(*quoted, **names)
            return Trouble(kind=kind, what=what.format(*raw), fix=filled, said=said)
    return _other(said, node, config)


def no_answer(node: Node, limit: float, said: str = "") -> Trouble:
    """Nothing at all within ``limit`` seconds: not even ssh's own time limits ended it."""
    fix = f"is it on, and on this network? ping -c 3 {shlex.quote(node.address)}"
    return Trouble(kind="no answer", what=f"no answer within {limit:g} s", fix=fix, said=said)


def lost(said: str, node: Node, config: str = "") -> Trouble:
    """The connection broke off while a command ran."""
    found = diagnose(said, node, config)
    if found.kind != "other":
        return replace(found, what=f"the connection was lost: {found.what}")
    why = f": {said.strip().splitlines()[-1]}" if said.strip() else ""
    fix = f"is it still on, and on this network? ping -c 3 {shlex.quote(node.address)}"
    return Trouble(kind="hung up", what=f"the connection was lost{why}", fix=fix, said=said)


def no_shell(node: Node, said: str, config: str = "") -> Trouble:
    """The login worked, and yet no command of ours began."""
    last = (said.strip().splitlines() or ["it said nothing"])[-1]
    fix = f"this must print ok: {_names(node, config)['ssh']} echo ok"
    return Trouble(kind="no shell", what=f"it lets no command run: {last}", fix=fix, said=said)


def command_line(node: Node, config: str = "") -> str:
    """The ssh command that a person would type to reach the node."""
    words = ["ssh", *(["-F", config] if config else [])]
    words += ["-p", str(node.port)] if node.port else []
    return shlex.join([*words, node.login])


def _names(node: Node, config: str) -> dict[str, str]:
    ssh = command_line(node, config)
    copy = ssh.replace("ssh", "ssh-copy-id", 1)
    return {"ssh": ssh, "copy": copy, "host": shlex.quote(node.address)}


def _other(said: str, node: Node, config: str) -> Trouble:
    last = (said.strip().splitlines() or ["it said nothing"])[-1]
    fix = f"see what it says: {command_line(node, config)} -v true"
    return Trouble(kind="other", what=f"ssh failed: {last}", fix=fix, said=said)
