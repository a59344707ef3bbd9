"""The two sides meet in plain data: what each may import, seen in a fresh process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import shanty
from reach import imported

PACKAGE = Path(shanty.__file__).parent
SCRIPT = Path(sys.executable).parent / "shanty"
OPERATOR = ("cli", "watch", "lab", "doctor", "cluster", "report")
NODE = ("agent", "task", "comm", "data", "train", "predict", "export")
SHARED = ("errors", "units", "spec", "record", "scan", "wire", "costmodel")
STDLIB_ONLY = (*SHARED, "agent")
NODE_ONLY = {"torch", "torchvision", "timm", "numpy", "PIL", "safetensors", "simplejpeg"}
OPERATOR_ONLY = {"typer", "click", "rich", "pydantic", "tomli"}


def modules_of(*rooms: str) -> list[str]:
    """Dotted names of every module in the rooms that exist."""
    names = []
    for room in rooms:
        files = [PACKAGE / f"{room}.py", *(PACKAGE / room).rglob("*.py")]
        for path in (path for path in files if path.is_file()):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            names.append(".".join(part for part in parts if part != "__init__"))
    return sorted(names)


def loaded_by(names: list[str]) -> set[str]:
    """Top-level modules in sys.modules after a fresh Python has imported all of ``names``."""
    code = (
        "import importlib, json, sys\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(name)\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    command = [sys.executable, "-c", code, json.dumps(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_the_operators_side_loads_no_torch_and_no_numpy() -> None:
    names = modules_of(*OPERATOR)
    assert names
    assert not loaded_by(names) & NODE_ONLY


def test_shared_rooms_and_agent_load_the_standard_library_only() -> None:
    bare = loaded_by([])  # what an editable install or coverage loads by itself
    foreign = loaded_by(modules_of(*STDLIB_ONLY)) - bare - set(sys.stdlib_module_names)
    assert foreign == {"shanty"}


def test_a_package_runs_nothing_when_imported() -> None:
    """A room's __init__ is a docstring, so importing one module never drags in its neighbours."""
    for path in PACKAGE.rglob("__init__.py"):
        lines = [line for line in path.read_text("utf-8").splitlines() if "import" in line]
        assert not [line for line in lines if line.startswith(("import shanty", "from shanty"))], (
            f"{path} imports from shanty"
        )


def seconds(*arguments: str) -> float:
    """Least processor time of five runs of this Python: what it costs on a quiet machine."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(times)


def test_help_comes_within_300_ms_of_bare_python() -> None:
    assert modules_of("cli")
    extra = seconds(str(SCRIPT), "--help") - seconds("-c", "pass")
    assert extra < 0.3, f"{extra * 1000:.0f} ms"


def test_the_nodes_side_names_nothing_of_the_operators() -> None:
    """Read, not run, so that it is also shown where torch is absent."""
    banned = {f"shanty.{room}" for room in OPERATOR} | OPERATOR_ONLY
    paths = [path for room in NODE for path in (PACKAGE / room).rglob("*.py")]
    assert paths
    for path in paths:
        for name in imported(path):
            heads = {name.split(".")[0], ".".join(name.split(".")[:2])}
            assert not heads & banned, f"{path}: {name}"
