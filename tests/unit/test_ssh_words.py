"""The line that a node's shell reads, and what ssh's own words mean. No connection here."""

from __future__ import annotations

import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shanty.cluster.ssh_line import REMOTE, answer, arguments, line
from shanty.cluster.ssh_trouble import Kind, command_line, diagnose, lost, no_answer
from shanty.spec.cluster import Node

NODE = Node(name="n1", address="10.0.0.7", user="nvidia", port=2222)
NONCE = "shanty-000000000000000000000000"
SHOW = 'import sys,os; sys.stdout.buffer.write(b"\\0".join(map(os.fsencode, sys.argv[1:])))'


def by_shell(shell: str, text: bytes) -> subprocess.CompletedProcess[bytes]:
    """What sshd does: the login shell gets the constant text, stdin brings the rest."""
    return subprocess.run([shell, "-c", REMOTE], input=text, capture_output=True, check=False)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_any_word_arrives_as_it_is(words: list[str]) -> None:
    text = line(NONCE, ["printf", "%s\\0", "x", *words], {}, 5)
    assert text.count(b"\n") == 1
    back = by_shell("sh", text)
    told = answer(NONCE, back.stdout, back.stderr)
    assert told.stdout == b"".join(word.encode() + b"\0" for word in ["x", *words])
    assert (told.begun, told.code, told.stderr) == (True, 0, b"")


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_commands_stdin_begins_after_the_line(shell: str) -> None:
    back = by_shell(shell, line(NONCE, ["cat"], {}, 5) + b"one\ntwo\xff")
    assert answer(NONCE, back.stdout, back.stderr).stdout == b"one\ntwo\xff"


def test_bytes_that_are_no_text_arrive_as_they_are() -> None:
    back = by_shell("sh", line(NONCE, ["printf", "%s", "a\udcff"], {}, 5))
    assert answer(NONCE, back.stdout, back.stderr).stdout == b"a\xff"


def test_a_zero_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="zero byte"):
        line(NONCE, ["echo", "a\0b"], {}, 5)


def test_a_search_path_of_the_nodes_own_stays_behind_ours() -> None:
    text = line(NONCE, ["sh", "-c", "echo $PYTHONPATH"], {"PYTHONPATH": "/code"}, 5)
    back = subprocess.run(
        ["sh", "-c", REMOTE], input=text, capture_output=True, check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": "/theirs"},
    )  # fmt: skip
    assert answer(NONCE, back.stdout, back.stderr).stdout == b"/code:/theirs\n"


def test_the_node_itself_ends_what_runs_far_over_its_limit() -> None:
    begin = time.monotonic()
    back = by_shell("sh", line(NONCE, ["sleep", "60"], {}, limit=-9))  # ends 10 s after it
    assert time.monotonic() - begin < 10
    assert answer(NONCE, back.stdout, back.stderr).code is None


def test_only_what_lies_between_the_marks_is_the_commands() -> None:
    mark = NONCE.encode()
    told = answer(NONCE, b"motd\n" + mark + b"\nout", b"err\n" + mark + b" 3\n")
    assert (told.begun, told.code, told.stdout, told.stderr) == (True, 3, b"out", b"err")
    never = answer(NONCE, b"motd\n", b"Permission denied\n")
    assert (never.begun, never.code, never.stdout) == (False, None, b"motd\n")
    broken = answer(NONCE, mark + b"\nha", b"Broken pipe\n")
    assert (broken.begun, broken.code, broken.stderr) == (True, None, b"Broken pipe\n")
    assert answer(NONCE, mark + b"\n", b"\n" + mark + b" none\n").missing


@pytest.mark.parametrize(("shell", "told"), [(137, -9), (139, -11), (143, -15), (130, 130)])
def test_a_shells_code_for_a_signal(shell: int, told: int) -> None:
    mark = NONCE.encode()
    assert answer(NONCE, mark + b"\n", b"\n%s %d\n" % (mark, shell)).code == told


def test_nothing_in_a_login_is_an_option_and_no_config_is_named_unasked() -> None:
    words = arguments(["ControlMaster=no"], "-oProxyCommand=x", 0, "")
    assert words[-3:] == ["--", "-oProxyCommand=x", REMOTE]
    assert not {"-F", "-p"} & set(words)
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ControlMaster=no"} <= set(words)
    asked = arguments([], "a", 2222, "my config")
    assert asked[:3] == ["ssh", "-F", "my config"]
    assert asked[asked.index("-p") + 1] == "2222"


CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:b+n0MBafgEuEZnqNYFNXSyu5QLB7YJOLxARqINXiU2I.
Please contact your system administrator.
Add correct host key in /home/me/my hosts to get rid of this message.
Offending ED25519 key in /home/me/my hosts:1
  remove with:
  ssh-keygen -f "/home/me/my hosts" -R "[10.0.0.7]:2222"
Host key for [10.0.0.7]:2222 has changed and you have requested strict checking.
Host key verification failed.
"""
UNKNOWN = """No ECDSA host key is known for [10.0.0.7]:2222 and you have requested strict checking.
Host key verification failed.
"""
KEY_FILE = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Permissions 0644 for '/home/me/.ssh/id' are too open.
It is required that your private key files are NOT accessible by others.
This private key will be ignored.
Load key "/home/me/.ssh/id": bad permissions
nvidia@10.0.0.7: Permission denied (publickey).
"""
JUMP = """channel 0: open failed: connect failed: Connection refused
stdio forwarding failed
kex_exchange_identification: Connection closed by remote host
Connection closed by UNKNOWN port 65535
"""
OLD = (
    "Unable to negotiate with 10.0.0.7 port 22: no matching host key type found. "
    "Their offer: ssh-rsa,ssh-dss\n"
)
TOO_MANY = """Received disconnect from 10.0.0.7 port 22:2: Too many authentication failures
Disconnected from 10.0.0.7 port 22
"""
TIMEOUT = "ssh: connect to host 10.0.0.7 port 2222: Connection timed out\n"
NO_ROUTE = "ssh: connect to host 10.0.0.7 port 2222: No route to host\n"
BAD_CONFIG = """/home/me/.ssh/config: line 3: Bad configuration option: foo
/home/me/.ssh/config: terminating, 1 bad configuration options
"""


@pytest.mark.parametrize(
    ("said", "kind", "what", "fix"),
    [
        (CHANGED, "changed key", "set up anew",
         "ssh-keygen -f '/home/me/my hosts' -R '[10.0.0.7]:2222'"),
        (UNKNOWN, "unknown key", "[10.0.0.7]:2222", "ssh_host_ecdsa_key.pub"),
        (UNKNOWN, "unknown key", "not known", "ssh -p 2222 nvidia@10.0.0.7 true"),
        ("Host key verification failed.\r\n", "unknown key", "jump host", "nvidia@10.0.0.7 true"),
        (KEY_FILE, "key file", "others could read it", "chmod 600 /home/me/.ssh/id"),
        ("nvidia@10.0.0.7: Permission denied (publickey,password).\n", "refused login",
         "as nvidia: wrong user", "ssh-copy-id -p 2222 nvidia@10.0.0.7"),
        ("nvidia@10.0.0.7: Permission denied (publickey).\n", "refused login",
         "as nvidia: wrong user", "authorized_keys"),
        (TOO_MANY, "refused login", "too many keys", "IdentitiesOnly"),
        (BAD_CONFIG, "config", "/home/me/.ssh/config, line 3", "ssh -G 10.0.0.7"),
        ("Bad owner or permissions on /home/me/.ssh/config\n", "config", "Bad owner", "chmod 600"),
        (OLD, "negotiation", "Their offer: ssh-rsa,ssh-dss", "openssh-server"),
        ("ssh: Could not resolve hostname n1: Name or service not known\n", "no such name",
         "the name n1 ", "hostname -I"),
        ("ssh: Could not resolve hostname n1: nodename nor servname provided, or not known\n",
         "no such name", "the name n1 ", "hostname -I"),
        ("ssh: connect to host 10.0.0.7 port 2222: Connection refused\n", "closed port",
         "nothing listens on 10.0.0.7 port 2222", "systemctl enable --now ssh"),
        (JUMP, "closed port", "the jump host cannot reach it: Connection refused", "enable --now"),
        (TIMEOUT, "no answer", "Connection timed out", "ping -c 3 10.0.0.7"),
        (NO_ROUTE, "no answer", "No route to host", "ping -c 3 10.0.0.7"),
        ("Connection timed out during banner exchange\n", "no answer", "timed out", "ping"),
        ("kex_exchange_identification: read: Connection reset by peer\n", "hung up",
         "before the login", "journalctl -u ssh"),
        ("something new\n", "other", "something new", "ssh -p 2222 nvidia@10.0.0.7 -v true"),
        ("", "other", "it said nothing", "-v true"),
    ],
)  # fmt: skip
def test_what_ssh_says_is_understood(said: str, kind: Kind, what: str, fix: str) -> None:
    found = diagnose(said, NODE)
    assert found.kind == kind
    assert what in found.what
    assert fix in found.fix
    assert len((found.what + "\n" + found.fix).splitlines()) <= 4


def test_the_fix_uses_the_config_that_was_asked_for() -> None:
    assert "ssh -F '/a b/c' -p 2222 nvidia@10.0.0.7" in diagnose(UNKNOWN, NODE, "/a b/c").fix
    assert command_line(Node(address="n2")) == "ssh n2"


def test_a_connection_that_breaks_is_told_as_such() -> None:
    broken = lost("client_loop: send disconnect: Broken pipe\r\n", NODE)
    assert broken.what == "the connection was lost: client_loop: send disconnect: Broken pipe"
    assert lost("", NODE).what == "the connection was lost"
    silent = lost("Timeout, server 10.0.0.7 not responding.\r\n", NODE)
    assert (silent.kind, silent.what[:23]) == ("no answer", "the connection was lost")
    assert "ping -c 3 10.0.0.7" in silent.fix
    assert no_answer(NODE, 14.0).what == "no answer within 14 s"
