"""Which modules a Python file reaches by import: found by parsing, nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src"
# What only a node has. A test that reaches one of these cannot run where torch is absent.
NODE_ONLY = frozenset({"torch", "torchvision", "timm", "numpy", "PIL", "safetensors", "simplejpeg"})


def needs_torch(path: Path) -> bool:
    """True when the file, or a module of ours that it imports, imports what only a node has."""
    return bool(reached(path) & (NODE_ONLY | {"sklearn"}))


def reached(path: Path) -> set[str]:
    """Top-level names of the foreign modules that ``path`` reaches, through ours as well."""
    foreign: set[str] = set()
    seen: set[Path] = set()
    todo = [path]
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        for name in imported(file):
            ours = own_files(name, beside=file.parent)
            todo += ours
            foreign |= set() if ours else {name.split(".")[0]}
    return foreign


def imported(path: Path) -> Iterator[str]:
    """Every module name in an import statement, also inside functions."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            # "from a import b" may mean the module a.b; when it does not, there is no such file
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_files(name: str, beside: Path) -> list[Path]:
    """Files of ours that importing ``name`` runs: the module's and its packages' __init__."""
    for root in (SRC, beside, Path(__file__).parent):
        files = list(_files(root, name.split(".")))
        if files:
            return files
    return []


def _files(root: Path, parts: list[str]) -> Iterator[Path]:
    for depth in range(1, len(parts) + 1):
        stem = root.joinpath(*parts[:depth])
        yield from (p for p in (stem / "__init__.py", stem.with_suffix(".py")) if p.is_file())
