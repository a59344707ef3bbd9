"""Tables of text (CSV, TSV) as people have them: BOM, UTF-16, Korean Windows, CRLF, ; and tab.

Cells are kept exactly as they stand, so that a template can be answered in its own form.
"""

from __future__ import annotations

import codecs
import csv
import io
from dataclasses import dataclass
from pathlib import Path

from shanty.errors import UsageError
from shanty.scan.names import root_text, shown

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DELIMITERS = (",", "\t", ";")


@dataclass(frozen=True, kw_only=True)
class Table:
    r"""A table and how it was written.

    Attributes:
        header: the first row, whatever it holds; without the BOM.
        rows: the other rows; each as long as the header; blank lines are left out.
        encoding: ``utf-8``, ``utf-8-sig``, ``utf-16-le``, ``utf-16-be`` (both with BOM), ``cp949``.
        newline: ``\n``, ``\r\n`` or ``\r``, as the first line ends.
        delimiter: comma, tab or semicolon.
        final_newline: whether the last line ends with a newline.
    """

    path: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    encoding: str
    newline: str
    delimiter: str
    final_newline: bool


def read_table(path: Path) -> Table:
    """Read a table.

    Raises:
        UsageError: missing, empty, no text, or a row that is longer or shorter than the first.
    """
    name = root_text(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no table {shown(name)}", hint="check the spelling") from None
    except OSError as error:
        raise UsageError(
            f"{shown(name)} cannot be read: {error.strerror}", hint="give a readable CSV file"
        ) from error
    encoding, content = _decode(raw, name)
    delimiter, rows = _parse(content, name)
    return Table(
        path=name,
        header=rows[0],
        rows=tuple(rows[1:]),
        encoding=encoding,
        newline=_newline(content),
        delimiter=delimiter,
        final_newline=content.endswith(("\n", "\r")),
    )


def render(table: Table) -> bytes:
    """The table as bytes in its own encoding, delimiter and newline; cells are quoted if needed.

    Raises:
        UsageError: a cell holds a character that the encoding (cp949) does not have.
    """
    out = io.StringIO()
    writer = csv.writer(out, delimiter=table.delimiter, lineterminator=table.newline)
    writer.writerows((table.header, *table.rows))
    content = out.getvalue()
    if not table.final_newline:
        content = content[: -len(table.newline)]
    bom = "\ufeff" if table.encoding.startswith("utf-16") else ""
    try:
        errors = "surrogateescape" if table.encoding.startswith("utf-8") else "strict"
        return (bom + content).encode(table.encoding, errors)
    except UnicodeEncodeError as error:
        raise UsageError(
            f"'{shown(content[error.start])}' cannot be written in {table.encoding}",
            hint="save the template as UTF-8",
        ) from error


def _decode(raw: bytes, name: str) -> tuple[str, str]:
    for bom, encoding in _BOMS:
        if raw.startswith(bom):
            return encoding, _text(raw, encoding, name).lstrip("\ufeff")
    if b"\0" in raw:
        raise UsageError(
            f"{shown(name)} is no text: it holds zero bytes", hint="save it as CSV in UTF-8"
        )
    try:
        return "utf-8", raw.decode("utf-8")
    except UnicodeDecodeError:
        return "cp949", _text(raw, "cp949", name)  # what Korean Windows and its Excel write


def _text(raw: bytes, encoding: str, name: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{shown(name)} is not valid text: byte {error.start} is not {encoding}",
            hint="save it as CSV in UTF-8",
        ) from error


def _newline(content: str) -> str:
    first = content.find("\n")
    if first < 0:
        return "\r" if "\r" in content else "\n"
    return "\r\n" if content[:first].endswith("\r") else "\n"


def _parse(content: str, name: str) -> tuple[str, list[tuple[str, ...]]]:
    """The delimiter under which most columns come out, and the rows."""
    tries = [(d, _rows(content, d, name)) for d in _DELIMITERS if d in content or d == ","]
    fit = [t for t in tries if t[1] and len(t[1][0][1]) > 1 and _ragged(t[1]) is None]
    delimiter, rows = max(fit or tries, key=lambda t: len(t[1][0][1]) if t[1] else 0)
    if not rows:
        raise UsageError(f"{shown(name)} is empty", hint="give a table with a header and rows")
    wrong = _ragged(rows)
    if wrong is not None:
        line, cells = wrong
        raise UsageError(
            f"line {line} of {shown(name)} has {len(cells)} columns, the first line has"
            f" {len(rows[0][1])}",
            hint='mend that line; a cell that holds the separator must stand in "quotes"',
        )
    return delimiter, [cells for _, cells in rows]


def _rows(content: str, delimiter: str, name: str) -> list[tuple[int, tuple[str, ...]]]:
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter)
    try:
        return [(reader.line_num, tuple(cells)) for cells in reader if cells]
    except csv.Error as error:
        raise UsageError(
            f"line {reader.line_num} of {shown(name)} cannot be read: {error}",
            hint="save it as CSV in UTF-8",
        ) from error


def _ragged(rows: list[tuple[int, tuple[str, ...]]]) -> tuple[int, tuple[str, ...]] | None:
    return next((row for row in rows if len(row[1]) != len(rows[0][1])), None)
