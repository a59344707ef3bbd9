"""Names of files: bytes to text, one Unicode form, what is hidden, what is an image.

Paths are handled as bytes and turned into text here, always as UTF-8 with surrogateescape. So a
name is the same text on every node, whatever the locale; ``on_disk`` gives the bytes back.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

# .jfif and .jpe are JPEG. AVIF and HEIC are left out on purpose: not every node's Pillow reads
# them, and a file must be readable on all nodes or on none.
USED = frozenset({"jpg", "jpeg", "jpe", "jfif", "png", "bmp", "gif", "webp", "tif", "tiff"})

# What systems leave behind; names with a leading dot (._x, .ipynb_checkpoints) come on top.
_HIDDEN = frozenset(
    {
        "__macosx",
        "thumbs.db",
        "desktop.ini",
        "@eadir",
        "$recycle.bin",
        "system volume information",
        "lost+found",
    }
)


def text(raw: bytes) -> str:
    """A name as text: UTF-8, each invalid byte as one lone surrogate."""
    return raw.decode("utf-8", "surrogateescape")


def root_text(root: Path) -> str:
    """The absolute form of a folder as ``text`` writes it; links in it are kept."""
    return text(os.fsencode(root.absolute()))


def on_disk(root: str, path: str) -> bytes:
    """The bytes to open a sample with, right under any locale: ``open(on_disk(root, path))``."""
    joined = f"{root.rstrip('/')}/{path}" if path else root
    return joined.encode("utf-8", "surrogateescape")


def as_path(name: str) -> Path:
    """A path for pathlib from the text that ``text`` makes, right under any locale."""
    return Path(os.fsdecode(name.encode("utf-8", "surrogateescape")))


def nfc(name: str) -> str:
    """The composed Unicode form (NFC), in which names are compared and sorted."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def is_utf8(name: str) -> bool:
    """False when the bytes on disk were not valid UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown(name: str) -> str:
    """A name that can be printed anywhere: invalid bytes and control characters escaped."""
    clean = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in clean)


def shown_pair(first: str, second: str) -> str:
    """Two names for a message; where they look alike, with their Unicode forms."""
    if nfc(first) != nfc(second):
        return f"'{shown(first)}' and '{shown(second)}'"
    forms = ["composed" if n == nfc(n) else "decomposed" for n in (first, second)]
    return f"'{shown(first)}' ({forms[0]}) and '{shown(second)}' ({forms[1]})"


def extension(name: str) -> str:
    """Lower-case extension without the dot; empty when there is none."""
    stem, dot, last = name.rpartition("/")[2].rpartition(".")
    return last.lower() if dot and stem else ""


def is_image_name(name: str) -> bool:
    """True for the extensions that are used, in any case."""
    return extension(name) in USED


def is_hidden(name: str) -> bool:
    """True for names that never count: a leading dot, and what Windows, macOS and NAS leave."""
    return name.startswith(".") or name.lower() in _HIDDEN


def listed(names: list[str], limit: int = 5) -> str:
    """The first names of a list for a message, with how many more there are."""
    head = ", ".join(f"'{shown(n)}'" for n in names[:limit])
    rest = len(names) - limit
    return f"{head} and {rest:,} more" if rest > 0 else head


def counted(kinds: dict[str, int]) -> str:
    """Counts per extension for a message, the six most frequent: ``12 .heic, 1 .txt``."""
    parts = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    said = [f"{n:,} {'.' + shown(k) if k else 'without extension'}" for k, n in parts[:6]]
    rest = sum(n for _, n in parts[6:])
    return ", ".join([*said, f"{rest:,} of {len(parts) - 6} other kinds"] if rest else said)
