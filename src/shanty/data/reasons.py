"""Why a file could not be used, in one short plain sentence."""

from __future__ import annotations

from PIL import Image, UnidentifiedImageError

from shanty.data.pixels import PixelsRefusedError

#: Pictures of more pixels are refused: it is Pillow's own guard against decompression bombs.
MAX_PIXELS = 178_956_970


def explain(error: Exception, data: bytes) -> str:
    """The reason behind a decoder's exception over a file's ``data``: one line, no addresses."""
    if isinstance(error, PixelsRefusedError):
        return str(error)
    if isinstance(error, Image.DecompressionBombError):
        return f"more than {MAX_PIXELS // 1_000_000} megapixels"
    if isinstance(error, MemoryError):
        return "not enough memory to decode it"
    if isinstance(error, UnidentifiedImageError):
        return _instead(data)
    text = " ".join(str(error).split())
    if "truncated" in text.lower():
        return "truncated: the file ends before the picture does"
    return f"damaged: {text or type(error).__name__}"


def _instead(data: bytes) -> str:
    """What a file holds when it is no picture."""
    if not data:
        return "empty file"
    if not data.strip(b"\0"):
        return "only zero bytes, as after an interrupted copy"
    start = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<svg")):
        return "a web page or SVG, not a picture of pixels"
    if start.startswith(b"version https://git-lfs"):
        return "a git-lfs pointer: the picture itself was not fetched"
    if data[4:8] == b"ftyp":
        brand = data[8:12].decode("ascii", "replace").strip()
        return f"format {brand} is not supported: convert it to JPEG or PNG"
    return "not a picture in a known format, or its first bytes are damaged"
