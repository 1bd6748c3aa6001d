"""Draws the pictures of the pages from what the commands really print.

``python -m docs.pictures first`` records the quick start of the README in an empty environment:
installing, training, checking, each with the seconds that it took.
``python -m docs.pictures email`` runs the demo and draws the e-mail that it sends.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
WIDTH = 80
_MAIL_WIDTH = 96
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def first() -> None:
    """``docs/first.svg``: from an empty environment to the first finding."""
    script = next(
        text
        for text in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        if text.startswith("import numpy")
    )
    console = _console()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "first.py").write_text(script)
        began = time.monotonic()
        environment = _environment(folder)
        console.print(Text("$ python -m venv .venv && . .venv/bin/activate", "bold"))
        venv.create(folder / ".venv", with_pip=True)
        console.print(_seconds(began))
        for shown, command in _quick_start(folder):
            console.print(Text(f"$ {shown}", "bold"))
            started = time.monotonic()
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode > 1:
                raise RuntimeError(f"{shown}: {done.stderr}")
            for line in (done.stderr + done.stdout).replace(str(folder), "~").splitlines():
                console.print(Text(line))
            console.print(_seconds(started))
        console.print(Text(f"all of it in {time.monotonic() - began:.1f} s", "bold"))
    _write("first.svg", console, "from nothing to the first finding")


def email() -> None:
    """``docs/email.svg``: the e-mail of the demo."""
    demo = [sys.executable, "-m", "tocsin", "demo", "--scenario", "vanishing", "--json"]
    done = subprocess.run(demo, cwd=ROOT, capture_output=True, text=True, check=True)
    mail: Mapping[str, str] = json.loads(done.stdout)["email"]
    console = _console(_MAIL_WIDTH)
    console.print(Text(f"Subject: {mail['subject']}\n", "bold"))
    story, _, _ = mail["body"].partition("To see more:")  # commands and links follow
    console.print(Text(f"{story}…"))
    _write("email.svg", console, "ml-oncall@example.com", light=True)


def _quick_start(folder: Path) -> list[tuple[str, list[str | Path]]]:
    """The commands of the README, as shown and as run here."""
    binaries = folder / ".venv" / "bin"
    return [
        (
            "pip install '.[cli]'",
            [binaries / "pip", "install", "-qq", "--disable-pip-version-check", f"{ROOT}[cli]"],
        ),
        ("python first.py", [binaries / "python", "first.py"]),
    ]


def _environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return own | {"PATH": f"{folder / '.venv' / 'bin'}:{own['PATH']}", "COLUMNS": str(WIDTH)}


def _seconds(since: float) -> Text:
    return Text(f"  {time.monotonic() - since:.1f} s\n", "dim")


def _console(width: int = WIDTH) -> Console:
    return Console(record=True, width=width, file=StringIO(), highlight=False)


def _write(name: str, console: Console, title: str, *, light: bool = False) -> None:
    theme = DEFAULT_TERMINAL_THEME if light else MONOKAI
    drawn = console.export_svg(title=title, theme=theme, unique_id=Path(name).stem)
    lines = _FONT.sub("", drawn).replace("Fira Code, ", "").splitlines()
    (DOCS / name).write_text("\n".join(line.rstrip() for line in lines) + "\n")
    print(f"docs/{name}")


PICTURES: Mapping[str, Callable[[], None]] = {"first": first, "email": email}


def main() -> None:
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()


if __name__ == "__main__":
    main()
