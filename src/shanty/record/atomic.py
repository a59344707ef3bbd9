"""Files that are whole or not there: temp name, fsync, rename, fsync of the folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

TEMP_MARK = ".tmp-"


def sync_dir(folder: Path) -> None:
    """Make the folder's entries themselves durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def temp_beside(path: Path) -> Path:
    """A temporary name in the same folder; the pid tells whose it is."""
    return path.with_name(f"{TEMP_MARK}{path.name}.{os.getpid()}")


def write_bytes(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Replace ``path`` by ``data`` in one step; on an error the old file stays, no temp is left.

    The new file has the permissions ``mode``, less the process's umask, from its first byte on.
    """
    temp = temp_beside(path)
    try:
        with os.fdopen(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temp.replace(path)
    finally:
        temp.unlink(missing_ok=True)
    sync_dir(path.parent)


def write_json(path: Path, data: Any, mode: int = 0o666) -> None:
    """Replace ``path`` by readable JSON (UTF-8, names as they are) in one step."""
    text = json.dumps(data, ensure_ascii=False, indent=1, allow_nan=True)
    write_bytes(path, (text + "\n").encode("utf-8", "surrogateescape"), mode)


def read_json(path: Path) -> Any:
    """Read what ``write_json`` wrote."""
    return json.loads(path.read_bytes().decode("utf-8", "surrogateescape"))
