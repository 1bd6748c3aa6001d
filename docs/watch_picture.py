"""Draws ``docs/watch.svg``, ``tocsin watch`` over a training that has just diverged.

``python -m docs.watch_picture``: the training is that of ``examples/digits_numpy.py``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from tocsin.cli.run_view import RunWatch
from tocsin.cli.screen import screen
from tocsin.tensors import END_MARKER, open_storage

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "watch.svg"
WIDTH, HEIGHT = 100, 34
_BEGAN, _STEP = 1.8e9, 0.16  # seconds
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def picture() -> str:
    """The screen as SVG, 4 seconds after the last step."""
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "digits"
        script = str(ROOT / "examples" / "digits_numpy.py")
        command = [sys.executable, script, "--out", str(run), "--fault", "diverging"]
        command += ["--save-interval", "1", "--steps", "120"]
        subprocess.run(command, check=True, capture_output=True)
        (run / END_MARKER).unlink()
        files = sorted((run / "index").rglob("*.json"))
        for at, file in enumerate(files):
            os.utime(file, (_BEGAN + at * _STEP,) * 2)
        view = RunWatch(open_storage(run), now=lambda: _BEGAN + len(files) * _STEP + 4).look()
        console = Console(record=True, width=WIDTH, file=StringIO(), highlight=False)
        console.print(screen(view, WIDTH, HEIGHT, footer="press q to quit; the training continues"))
    drawn = console.export_svg(title="tocsin watch", theme=MONOKAI, unique_id="watch")
    lines = _FONT.sub("", drawn).replace("Fira Code, ", "").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())
    print(PICTURE.relative_to(ROOT))
