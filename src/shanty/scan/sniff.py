"""A look at the first bytes of each file: empty, a pointer, a web page, or plausibly an image.

Whether the whole image decodes is found later, by the decoder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from shanty.scan.names import on_disk
from shanty.scan.walk import Entry

HEAD = 64
_BLANKS = (b" ", b"\n", b"\r", b"\t")

# Signatures as in the formats' own specifications; any known one is accepted under any used
# extension, since a PNG named .jpg decodes well. AVIF is not among them: not every node reads it.
_MAGIC = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"II+\0",
    b"MM\0+",
    b"\0\0\0\x0cjP  ",
    b"\xff\x4f\xff\x51",
    *(b"P" + digit + space for digit in (b"1", b"2", b"3", b"4", b"5", b"6") for space in _BLANKS),
)

_PAGES = (b"<!doctype", b"<html", b"<?xml", b"<svg")
_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Look:
    """One file as seen from outside: bytes, and why it cannot be an image (empty: it may be)."""

    entry: Entry
    size: int
    reason: str


def look_at(root: str, entries: Iterable[Entry]) -> list[Look]:
    """Open every file once and read its first bytes."""
    return [_look(root, entry) for entry in entries]


def _look(root: str, entry: Entry) -> Look:
    try:
        # Non-blocking: a pipe that is named like an image must not hang the scan.
        file = os.open(on_disk(root, entry.path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Look(entry, 0, _why_closed(root, entry, error))
    try:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode):
            return Look(entry, 0, "not a regular file")
        return Look(entry, info.st_size, why_no_image(os.read(file, HEAD)))
    except OSError as error:
        return Look(entry, 0, f"cannot be read: {error.strerror}")
    finally:
        os.close(file)


def _why_closed(root: str, entry: Entry, error: OSError) -> str:
    if os.path.islink(on_disk(root, entry.path)):  # noqa: PTH114 - a bytes path
        return "a link that leads nowhere"
    return f"cannot be opened: {error.strerror}"


def why_no_image(head: bytes) -> str:
    """Why a file that starts with ``head`` is no image of a used format; empty if it may be one."""
    if head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return ""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    reasons = (
        (not head, "empty file"),
        (head.startswith(_LFS), "a git-lfs pointer: the picture itself was not fetched"),
        (start.startswith(_PAGES), "a web page or SVG, not a picture of pixels"),
        (head[4:8] == b"ftyp", "an AVIF, HEIC or video file, which not every node can read"),
        (not head.strip(b"\0"), "only zero bytes at its start, as after an interrupted copy"),
        (_is_text(head), "a text file, not a picture"),
    )
    unknown = "not a picture in a known format, or its first bytes are damaged"
    return next((reason for found, reason in reasons if found), unknown)


def _is_text(head: bytes) -> bool:
    return all(b >= 32 or b in b"\t\n\r\f" for b in head) and 127 not in head
