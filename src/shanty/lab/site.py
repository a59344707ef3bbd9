"""The Python of the boards: torch, torchvision and timm, and nothing that an operator has."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

WANTED = ("torch", "torchvision", "timm", "pillow")
VENV = "python"


def parts() -> dict[str, Path]:
    """Name in site-packages to where it lies here, for what ``WANTED`` needs and is installed."""
    found: dict[str, Path] = {}
    for dist in _closure(list(WANTED)):
        for file in dist.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__", "") and top not in found:
                found[top] = Path(str(dist.locate_file(top)))
    return found


def _closure(names: list[str]) -> list[Distribution]:
    """Installed distributions that these need, themselves included."""
    seen: dict[str, Distribution | None] = {}
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name in seen:
            continue
        try:
            seen[name] = distribution(name)
        except PackageNotFoundError:  # not here, or needed on other systems only
            seen[name] = None
            continue
        names += [_name(line) for line in distribution(name).requires or () if _plain(line)]
    return [dist for dist in seen.values() if dist is not None]


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return match[0] if match else ""


def _plain(requirement: str) -> bool:
    return "extra ==" not in requirement


@dataclass(frozen=True, kw_only=True)
class Site:
    """Folders to show on a board below ``site/0``, ``site/1`` …, and links that make a Python."""

    folders: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    config: str


def site_at(root: Path) -> Site:
    """What makes a virtual environment at ``root/python`` on a board.

    The Python below it is shown as well: it may lie in a home that who logs in cannot read.
    """
    found = parts()
    base = str(Path(sys.base_prefix).resolve())
    folders = sorted(({str(path.parent) for path in found.values()} | {base}) - {"/usr"})
    places = {folder: f"{root}/site/{number}" for number, folder in enumerate(folders)}
    places["/usr"] = "/usr"  # every board shows it anyway
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = f"{VENV}/lib/{version}/site-packages"
    links = [
        (f"{packages}/{name}", f"{places[str(path.parent)]}/{name}")
        for name, path in sorted(found.items())
    ]
    home = f"{places[base]}/bin"
    links += [(f"{VENV}/bin/{name}", f"{home}/{version}") for name in ("python", "python3")]
    return Site(
        folders=tuple(folders),
        links=tuple(links),
        config=f"home = {home}\ninclude-system-site-packages = false\n",
    )
