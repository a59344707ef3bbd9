"""How a command travels over ssh, whatever the login shell on the node is. Pure.

sshd gives what it is sent to the person's login shell, which may be fish or csh and quotes in its
own way. So that shell gets one constant text, which reads the real line from stdin in /bin/sh.
A nonce is printed before the command and after it: what a ``.bashrc`` prints is cut off, and the
exit code is the command's own, never ssh's.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# No backslash, no exclamation mark: every shell reads this in the same way.
REMOTE = """exec /bin/sh -c 'IFS= read -r l; eval "$l"'"""

# Never a prompt, never a silent accept, nothing of the person's config that would get in the way.
OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "ConnectTimeout=10",
    "ConnectionAttempts=1",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
    "VisualHostKey=no",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
)

# A leading ~/ of the program is the home on the node.
_HOME = 'case "$1" in "~/"*) p=$HOME/${1#"~/"}; shift; set -- "$p" "$@";; esac; '
# A missing program is told apart from a program that ends with 127.
_FIND = (
    _HOME + 'command -v -- "$1" >/dev/null 2>&1 || { printf "\\n%s none\\n" "$n" >&2; exit 127; }; '
)
# The shell stays as the parent, so that a signal that ends the command is seen; a task of ours
# dies with it (record.orphan).
_RUN = (
    'n=$1; shift; printf "%s\\n" "$n"; '
    + _FIND
    + 'SHANTY_AGENT_PID=$$ "$@"; c=$?; printf "\\n%s %s\\n" "$n" "$c" >&2; exit "$c"'
)
# In a session of its own, so that nothing that happens to the connection reaches it.
START = (
    "unset SHANTY_CALL SHANTY_AGENT_PID; log=$1; shift; "
    + _HOME
    + 'command -v -- "$1" >/dev/null 2>&1 || { echo none; exit 0; }; (: >>"$log") || exit 1; '
    'setsid "$@" </dev/null >>"$log" 2>&1 & p=$!; '
    'printf "%s\\n" "$p" "$(uname -n)" "$(cat /proc/sys/kernel/random/boot_id)"; '
    'cat "/proc/$p/stat" 2>/dev/null || true'
)
# Signal 0 only looks. Between proof and signal lies a very small race: a shell has no pidfd.
SEND = (
    'pid=$1 start=$2 host=$3 boot=$4 number=$5; [ "$(uname -n)" = "$host" ] || exit 0; '
    '[ "$(cat /proc/sys/kernel/random/boot_id)" = "$boot" ] || exit 0; '
    's=$(cat "/proc/$pid/stat" 2>/dev/null) || exit 0; set -- ${s##*)}; '
    'case "$1" in Z|X) exit 0;; esac; [ "${20}" = "$start" ] || exit 0; '
    '[ "$number" = 0 ] || kill "-$number" "$pid" || exit 0; echo yes'
)
# Everything that a call started carries its nonce in its environment, wherever it went.
END = (
    'for f in $(grep -ls -- "$1" /proc/[0-9]*/environ); do f=${f#/proc/}; kill -9 "${f%%/*}"; done'
)

# What a shell answers for a command that was ended by this signal; 130 is left alone: it is also
# the exit code of a person's stop.
_SIGNALS = frozenset({4, 6, 7, 8, 9, 11, 15})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back. ``begun``: the command's line was reached; ``code`` None: it never ended.

    ``missing``: there is no such program on the node.
    """

    begun: bool
    code: int | None
    missing: bool
    stdout: bytes
    stderr: bytes


def arguments(options: Sequence[str], login: str, port: int, config: str) -> list[str]:
    """The command line of ssh; nothing in ``login`` can be taken for an option."""
    words = ["ssh", *(["-F", config] if config else []), "-T"]
    for option in (*OPTIONS, *options):
        words += ["-o", option]
    words += ["-p", str(port)] if port else []
    return [*words, "--", login, REMOTE]


def line(nonce: str, command: Sequence[str], env: Mapping[str, str], limit: float) -> bytes:
    """The line that the node's /bin/sh reads: one line, whatever stands in the words.

    The node ends the command itself a little after ``limit``, should we be gone by then.
    """
    variables = {**env, "SHANTY_CALL": nonce}
    exports = " ".join(f"{name}={_quoted(value)}{_tail(name)}" for name, value in variables.items())
    words = " ".join(map(_quoted, ["/bin/sh", "-c", _RUN, "sh", nonce, *command]))
    text = f"{_NEWLINE}export {exports}; exec timeout -s KILL {int(limit) + 10} {words}\n"
    return text.encode("utf-8", "surrogateescape")


# A newline would end the line that is read, so it travels as a variable.
_NEWLINE = "N=$(printf '%b' '\\012x'); N=${N%x}; "


def _tail(name: str) -> str:
    """A search path of the node's own stays, behind ours: its torch may hang on it."""
    return '"${PYTHONPATH:+:$PYTHONPATH}"' if name == "PYTHONPATH" else ""


def _quoted(word: str) -> str:
    if "\0" in word:
        raise ValueError("a word of a command cannot hold a zero byte")
    return '"$N"'.join(shlex.quote(part) for part in word.split("\n"))


def answer(nonce: str, stdout: bytes, stderr: bytes) -> Answer:
    """Take a finished or broken call apart."""
    mark = nonce.encode()
    noise, begun, rest = stdout.partition(mark + b"\n")
    before, ended, tail = stderr.rpartition(b"\n" + mark + b" ")
    said = before if ended else stderr
    word = tail.split(b"\n")[0].decode("ascii", "replace") if ended else ""
    return Answer(
        begun=bool(begun),
        code=_code(word),
        missing=word == "none",
        stdout=rest if begun else noise,
        stderr=said,
    )


def _code(word: str) -> int | None:
    if not word.isdigit():
        return None
    code = int(word)
    return 128 - code if code - 128 in _SIGNALS else code
