"""The file a submission goes to: looked at before predicting, replaced in one step after."""

from __future__ import annotations

import os
from pathlib import Path

from shanty.errors import FailedError, UsageError
from shanty.record import atomic


def check_target(path: Path, *, force: bool) -> None:
    """Raise before the work what would only be found after it.

    Raises:
        UsageError: something is there already (without ``force``), it is no plain file, or its
            folder is missing or cannot be written.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a plain file", hint="name a file: -o submission.csv")
    if path.exists() and not force:
        raise UsageError(f"{path} exists", hint="choose another -o, or add --force to replace it")
    if not path.parent.is_dir():
        raise UsageError(
            f"there is no folder {path.parent} to write {path.name} into",
            hint=f"make it: mkdir -p {path.parent}",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"no permission to write into {path.parent}", hint="choose another place with -o"
        )


def write_submission(path: Path, data: bytes, *, force: bool) -> None:
    """Write the file in one step: it is whole, or what was there before is untouched.

    A symbolic link is followed, so that the file it names is replaced and not the link.

    Raises:
        UsageError: as ``check_target``.
        FailedError: the system refuses to write it (disk full, ...).
    """
    check_target(path, force=force)
    try:
        atomic.write_bytes(path.resolve(), data)
    except OSError as error:
        raise FailedError(
            f"cannot write {path}: {error.strerror} ({len(data):,} bytes needed)",
            hint="free some space, or choose another place with -o",
        ) from error
