"""The probe as one text for ``python3 -``: its modules and three lines that load them.

Nothing need be installed on the node, and nothing is written there.
"""

from __future__ import annotations

from importlib import resources

# In the order in which they import each other.
PARTS = ("tree", "machine", "network", "board", "processes", "program")
TORCH_PARTS = ("forked", "torch_program")
PACKAGE = __package__ or "shanty.cluster.probe"

_LOADER = """\
import sys
if sys.path[:1] == [""]:
    del sys.path[0]  # a json.py in the home folder is not Python's own
if sys.version_info < (3, 8):
    sys.exit("python %d.%d is too old: 3.8 is the oldest" % sys.version_info[:2])
import types
def load(name, source):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(source, name, "exec"), module.__dict__)
    return module
for name, source in {sources}:
    module = load(name, source)
sys.exit(module.main())
"""


def probe_text() -> bytes:
    """The program that prints the machine's facts (``program.main``)."""
    return _bundle(PARTS)


def torch_text() -> bytes:
    """The program that imports torch and tries its backends (``torch_program.main``)."""
    return _bundle(TORCH_PARTS)


def _bundle(parts: tuple[str, ...]) -> bytes:
    packages = [".".join(PACKAGE.split(".")[:n]) for n in range(1, PACKAGE.count(".") + 2)]
    folder = resources.files(PACKAGE)
    sources = [(name, "") for name in packages]
    sources += [(f"{PACKAGE}.{p}", (folder / f"{p}.py").read_text("utf-8")) for p in parts]
    return _LOADER.replace("{sources}", repr(sources)).encode()
