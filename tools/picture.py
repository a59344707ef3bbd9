"""The picture in the README: runs the commands given, draws what they really printed as an SVG.

python tools/picture.py docs/train.svg "shanty train photos --nproc 3" "shanty predict ..."
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 84


def main(argv: list[str]) -> int:
    """Write the SVG; the exit code of the first command that fails."""
    target, commands = Path(argv[1]), argv[2:]
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands:
        console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
        done = subprocess.run(
            ["bash", "-c", command],
            env=os.environ | {"PATH": path, "COLUMNS": str(WIDTH)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        console.print(Text(done.stdout.rstrip("\n")))
        if done.returncode:
            print(done.stdout, file=sys.stderr)
            return done.returncode
    drawn = console.export_svg(title="shanty", unique_id="shanty")
    # Nothing is fetched to look at it: the reader's own monospace font will do.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"<!--.*?-->", "", drawn, flags=re.DOTALL)
    target.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
