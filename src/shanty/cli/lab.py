"""``shanty lab``: boards to rehearse on, made of this machine, with faults on demand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from shanty.cli.options import command
from shanty.cli.speaker import Speaker

EXAMPLES = """\b
Examples:
  shanty lab up 3 --link 1gbit
  shanty lab exec op -- ssh n1 hostname
  shanty lab cut n2
  shanty lab down
"""
_UP = """\b
Examples:
  shanty lab up 3
  shanty lab up 2 --link 100mbit --name slow
"""
_EXEC = """\b
Examples:
  shanty lab exec n2 -- python3 -c 'import torch'
  shanty lab exec op -- ssh n1 hostname
"""

Name = Annotated[str, typer.Option(help="Which lab, where there are several.")]
Node = Annotated[str, typer.Argument(help="n1, n2, … or op.", show_default=False)]


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    """Make boards n1, n2, … and op, the operator's place, on a switch of their own.

    Each has its own eno1, host name, disk, processes and sshd. The machine's own network is not
    touched. Needs root.
    """

    boards: Annotated[int, typer.Argument(help="How many boards.")] = 3
    link: Annotated[str, typer.Option(help="Speed of the cables: 1gbit, 100mbit, none.")] = "1gbit"
    disk: Annotated[int, typer.Option(help="Size of each board's disk, MiB of memory.")] = 2048
    name: Annotated[str, typer.Option(help="The lab's name.")] = "lab"


@dataclass(frozen=True, kw_only=True)
class LabOptions:
    """What a command on the whole lab takes."""

    name: Name = "lab"


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """What a command on one host takes."""

    node: Node
    name: Name = "lab"


@dataclass(frozen=True, kw_only=True)
class ExecOptions:
    """Run a command on a board as over ssh; on op in this folder, with this shanty.

    Boards start it in their HOME with a bare environment. Its exit code is given on.
    """

    node: Node
    words: Annotated[list[str], typer.Argument(help="The command.", show_default=False)]
    name: Name = "lab"


@dataclass(frozen=True, kw_only=True)
class LinkOptions:
    """Another speed for a host's cable, both ways."""

    node: Node
    speed: Annotated[str, typer.Argument(help="1gbit, 100mbit, none.", show_default=False)]
    name: Name = "lab"


@dataclass(frozen=True, kw_only=True)
class FirewallOptions:
    """Drop new connections to a host without an answer, but to ssh and the allowed ports."""

    node: Node
    allow: Annotated[list[int] | None, typer.Option(help="A port that stays open.")] = None
    name: Name = "lab"


@dataclass(frozen=True, kw_only=True)
class MtuOptions:
    """Another MTU for a host's eno1, or for the switch's port alone (--path).

    With --path larger packets are lost without a word, both ways.
    """

    node: Node
    mtu: Annotated[int, typer.Argument(help="Bytes; Ethernet has 1500.", show_default=False)]
    path: Annotated[bool, typer.Option("--path", help="On the way, not on the host.")] = False
    name: Name = "lab"


@dataclass(frozen=True, kw_only=True)
class KillOptions:
    """Kill one process of a host, or without PID cut the host's power.

    A host without power says no good-bye. boot brings it back with an empty disk.
    """

    node: Node
    pid: Annotated[int | None, typer.Argument(help="As the host sees it.")] = None
    name: Name = "lab"


@dataclass(frozen=True, kw_only=True)
class FillOptions:
    """Fill a host's disk."""

    node: Node
    leave: Annotated[int, typer.Option(help="MiB that stay free.")] = 0
    name: Name = "lab"


def build_app() -> typer.Typer:
    """The group of commands."""
    about = "Rehearse on boards made of this machine. Needs root."
    app = typer.Typer(help=about, epilog=EXAMPLES, rich_markup_mode=None, no_args_is_help=True)
    app.command("up", epilog=_UP)(command(UpOptions, up))
    inner = {"allow_interspersed_args": False}
    app.command("exec", epilog=_EXEC, context_settings=inner)(command(ExecOptions, execute))
    app.command("status", help="How every host stands.")(command(LabOptions, status))
    app.command("down", help="Remove what up made, also after a crash.")(command(LabOptions, down))
    app.command("link")(command(LinkOptions, link))
    app.command("firewall")(command(FirewallOptions, firewall))
    app.command("mtu")(command(MtuOptions, mtu))
    app.command("kill")(command(KillOptions, kill))
    app.command("fill")(command(FillOptions, fill))
    for word, text in _PLAIN.items():
        app.command(word, help=text)(command(NodeOptions, _plain(word)))
    return app


_PLAIN = {
    "cut": "Pull a host's cable.",
    "freeze": "Stop every process of a host; its kernel still answers.",
    "thaw": "Let a frozen host go on.",
    "heal": "Undo every fault of a host but a lack of power.",
    "boot": "Start a board without power anew; its disk is empty.",
}


def up(options: UpOptions) -> int:
    """Build the lab and say how it is used."""
    from shanty.lab.build import Request, up

    _check()
    request = Request(
        boards=options.boards, name=options.name, link=options.link, disk=options.disk << 20
    )
    for line in up(request):
        Speaker()([line])
    name = "" if options.name == "lab" else f" --name {options.name}"
    Speaker()([f"up. Try: shanty lab exec{name} op -- ssh n1 hostname"])
    return 0


def down(options: LabOptions) -> int:
    """Remove the lab."""
    from shanty.lab.build import down

    _check()
    Speaker()([f"{down(options.name)} hosts ended; nothing is left of the lab {options.name}"])
    return 0


def execute(options: ExecOptions) -> int:
    """Become the command."""
    from shanty.lab.enter import execute

    _check()
    return execute(_lab(options.name), options.node, options.words)


def status(options: LabOptions) -> int:
    """One line per host."""
    from shanty.lab.status import standings

    _check()
    Speaker()(["host  address      state   cable     mtu   processes"])
    for s in standings(_lab(options.name)):
        row = f"{s.name:5} {s.address:12} {s.state:7} {s.cable:9} {s.mtu:5} "
        Speaker()([f"{row}{s.processes}{'  firewall' if s.firewall else ''}"])
    return 0


def link(options: LinkOptions) -> int:
    """Set a cable's speed."""
    return _change(options, "link", options.speed)


def firewall(options: FirewallOptions) -> int:
    """Close a host."""
    return _change(options, "firewall", options.allow or [])


def mtu(options: MtuOptions) -> int:
    """Set an MTU."""
    return _change(options, "mtu", options.mtu, path=options.path)


def fill(options: FillOptions) -> int:
    """Fill a disk."""
    return _change(options, "fill", options.leave << 20)


def kill(options: KillOptions) -> int:
    """Kill a process, or cut the power."""
    return _change(options, "kill", options.pid)


def _plain(word: str) -> Callable[[NodeOptions], int]:
    return lambda options: _change(options, word)


def _change(options: Any, word: str, *values: Any, **named: Any) -> int:
    """One fault on one host, alone on the lab, and the sentence that says it took effect."""
    from shanty.lab.change import change

    _check()
    Speaker()([change(options.name, word, options.node, *values, **named)])
    return 0


def _check() -> None:
    from shanty.lab.needs import check_root

    check_root(sys.argv[1:])


def _lab(name: str) -> Any:
    from shanty.lab.state import load

    return load(name)
