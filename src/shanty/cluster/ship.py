"""Send shanty's own code to a node, once: boards need no shanty, and nothing is installed there."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shanty
from shanty.cluster import unpack
from shanty.cluster.ssh import SshTransport
from shanty.cluster.transport import Transport
from shanty.errors import FailedError, RefusedError
from shanty.spec.cluster import Node

_LIMIT = 60.0


@dataclass(frozen=True, kw_only=True)
class Code:
    """Source files, packed: ``digest`` names them, equal files give equal bytes."""

    digest: str
    packed: bytes


def pack(package: Path | None = None) -> Code:
    """The source of ``package``, a folder (shanty's own by default), as a tar.

    Deterministic: names sorted; no owner, time or mode of this machine is in it.
    """
    root = package or Path(shanty.__file__).parent
    whole = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=whole, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        contents = _sources(root)
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return Code(digest=unpack.digest_of(contents), packed=whole.getvalue())


def _sources(root: Path) -> dict[str, bytes]:
    names = [n for n in unpack.files_of(root) if n.endswith((".py", ".typed", ".toml"))]
    return {f"{root.name}/{name}": (root / name).read_bytes() for name in sorted(names)}


def ship(transport: Transport, node: Node, code: Code) -> str:
    """Put the code on the node unless it is there; the folder on the node that holds it.

    Raises:
        RefusedError: the node has no such Python, no room, or cannot write its cache.
        FailedError: the connection was lost, or the node's Python fails.
    """
    there = _asked(transport, node, ["look", code.digest], b"")
    return there or _sent(transport, node, code)


def with_code(transport: SshTransport, node: Node, code: Code) -> SshTransport:
    """The same node, where ``node.python -m shanty...`` now runs this code."""
    return transport.using({"PYTHONPATH": ship(transport, node, code)})


def _sent(transport: Transport, node: Node, code: Code) -> str:
    path = _asked(transport, node, ["take", code.digest], code.packed)
    if path is None:
        raise FailedError("shanty's code is not there after it was sent", node=node.name)
    return path


def _asked(transport: Transport, node: Node, words: list[str], stdin: bytes) -> str | None:
    text = Path(unpack.__file__).read_text("utf-8")
    # -I: neither the person's variables nor a file in some folder changes what runs.
    command = [node.python, "-I", "-c", text, *words]
    result = transport.run(command, stdin=stdin, limit=_LIMIT)
    answer = _answer(result.stdout)
    if "path" in answer:
        return answer["path"]
    if "error" in answer:
        raise RefusedError(answer["error"], hint=answer["fix"], node=node.name)
    said = result.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    raise FailedError(
        f"its Python {node.python} cannot take shanty's code: {''.join(said) or 'no answer'}",
        hint="check the node's python in the cluster file",
        node=node.name,
    )


def _answer(stdout: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(stdout.decode("utf-8", "replace").strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {}
    return answer if isinstance(answer, dict) else {}
