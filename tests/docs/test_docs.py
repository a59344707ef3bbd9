"""What the README and the docs say is so: their links exist, their marked commands run.

A fenced ``console`` block with ``<!-- test -->`` on a line before it is run: each line that begins
with ``$ `` in one shell, in a scratch folder that keeps its files from block to block of a page.
Every other line is output, for the reader's eye only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
PAGES = [p for p in (REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))) if p.is_file()]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")
FENCE = re.compile(r"^(?:(<!-- test -->)\n+)?```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of commands: how they are typed, and whether they are run here."""

    commands: str
    tested: bool


def blocks(text: str) -> list[Block]:
    """Every console block that holds a command."""
    found = []
    for mark, body in FENCE.findall(text):
        lines = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
        if lines:
            found.append(Block(commands="\n".join(lines), tested=bool(mark)))
    return found


def links(text: str) -> list[str]:
    """Targets of links outside fenced blocks, without those to other sites."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = LINK.findall(re.sub(r"`[^`\n]*`", "", prose))
    return [
        target for target in targets if "://" not in target and not target.startswith("mailto:")
    ]


def anchors(text: str) -> set[str]:
    """Names that a heading can be linked by, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+\s+(.*)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def run(commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The commands in one shell that stops at the first failure."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(REPO)) for p in PAGES])
def test_links_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in links(text):
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file.read_text("utf-8")), f"{page.name}: {target}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(REPO)) for p in PAGES])
def test_marked_commands_run(page: Path, tmp_path: Path) -> None:
    for block in blocks(page.read_text("utf-8")):
        if block.tested:
            done = run(block.commands, tmp_path)
            assert done.returncode == 0, f"$ {block.commands}\n{done.stdout}\n{done.stderr}"


SAMPLE = """# A page
See [this](#second-part) and [that](other.md), not [out](https://example.org) or `[x](y)`.

<!-- test -->
```console
$ echo hello > made.txt
$ cat made.txt
hello
```

## Second part
```console
$ rm -rf everything
[not a link](nowhere.md)
```
"""


def test_the_reader_of_pages_sees_marks_commands_and_links() -> None:
    assert blocks(SAMPLE) == [
        Block(commands="echo hello > made.txt\ncat made.txt", tested=True),
        Block(commands="rm -rf everything", tested=False),
    ]
    assert links(SAMPLE) == ["#second-part", "other.md"]
    assert anchors(SAMPLE) == {"a-page", "second-part"}


def test_a_failing_command_is_seen(tmp_path: Path) -> None:
    assert run(blocks(SAMPLE)[0].commands, tmp_path).stdout == "hello\n"
    assert run("false\ntrue", tmp_path).returncode != 0
