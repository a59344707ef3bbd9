"""Put shanty's code where a node keeps it. Sent as text to the node's own Python, 3.8 or newer.

    python3 -c TEXT look DIGEST           is this code there, and whole?
    python3 -c TEXT take DIGEST < TAR.GZ  put it there in one step

Standard library only, one file, nothing of shanty's: the node has no shanty yet. The answer is one
JSON object on stdout: ``{"path": ...}`` (null: not there) or ``{"error": ..., "fix": ...}``.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import shutil
import sys
import tarfile
import tempfile
import time
import zlib
from pathlib import Path

FOLDER = "~/.cache/shanty/code"
OLD = 86400.0  # seconds after which somebody's half-written folder is nobody's


def files_of(root: Path) -> list[str]:
    """Every file that counts, as sorted paths below ``root``; compiled ones are made anew."""
    found = [p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return sorted(p.relative_to(root).as_posix() for p in found)


def digest(root: Path) -> str:
    """What ``digest_of`` says of the files below ``root``."""
    return digest_of({name: (root / name).read_bytes() for name in files_of(root)})


def digest_of(contents: dict[str, bytes]) -> str:
    """SHA-256 over names, in their order, and contents."""
    total = hashlib.sha256()
    for name, content in contents.items():
        total.update(b"%s\0%d\0" % (name.encode(), len(content)))
        total.update(content)
    return total.hexdigest()


def look(home: Path, wanted: str) -> str | None:
    """The folder with this code when all of it is there, unchanged; else None."""
    target = home / wanted
    return str(target) if target.is_dir() and digest(target) == wanted else None


def take(home: Path, wanted: str, packed: bytes) -> str:
    """Unpack beside, check, and rename into place; a damaged folder there is replaced."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    _sweep(home)
    temp = Path(tempfile.mkdtemp(prefix=".tmp-", dir=str(home)))
    try:
        _extract(packed, temp / "new")
        if digest(temp / "new") != wanted:
            raise ValueError("the code did not arrive as it was sent")
        target = home / wanted
        if target.exists() and look(home, wanted) is None:
            target.rename(temp / "damaged")
        with contextlib.suppress(OSError):  # somebody else was quicker
            (temp / "new").rename(target)
        if look(home, wanted) is None:
            raise ValueError(f"cannot put the code into {target}")
        return str(target)
    finally:
        shutil.rmtree(str(temp), ignore_errors=True)


def _extract(packed: bytes, root: Path) -> None:
    # By hand: tarfile's own extraction obeys links, owners and paths that lead out.
    with tarfile.open(fileobj=io.BytesIO(_plain(packed)), mode="r:") as tar:
        for member in tar:
            parts = member.name.split("/")
            content = tar.extractfile(member) if member.isfile() else None
            if content is None or ".." in parts or member.name.startswith("/"):
                raise ValueError(f"odd name in the code: {member.name!r}")
            path = root.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())  # no fsync: every look reads all of it again


def _plain(packed: bytes) -> bytes:
    try:
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError("the code did not arrive as it was sent") from error


def _sweep(home: Path) -> None:
    for left in home.glob(".tmp-*"):
        if time.time() - left.stat().st_mtime > OLD:
            shutil.rmtree(str(left), ignore_errors=True)


def main(verb: str, wanted: str) -> dict[str, str | None]:
    """What the operator asked for, as one answer."""
    home = Path(FOLDER).expanduser()
    try:
        if verb == "look":
            return {"path": look(home, wanted)}
        return {"path": take(home, wanted, sys.stdin.buffer.read())}
    except OSError as error:
        fix = f"make room, or make it writable: {home}"
        return {"error": f"cannot write {home}: {error.strerror}", "fix": fix}
    except (ValueError, tarfile.TarError) as error:
        return {"error": str(error), "fix": "try again; look for a bad cable or disk"}


if __name__ == "__main__":
    json.dump(main(sys.argv[1], sys.argv[2]), sys.stdout)
