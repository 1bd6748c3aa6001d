"""An interpreter that has smdebug, and the C++ protobuf that it is fast with if possible."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from local.lock import locked

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "tests" / "frameworks" / "smdebug-requirements.txt"


def smdebug_python() -> Path:
    """Made when first asked for, in .cache: of Python 3.10 where there is one, the last version
    that its protobuf has compiled code for, else of this one. Raises CalledProcessError."""
    base = next(_pythons())
    folder = ROOT / ".cache" / f"smdebug-{'this' if base == sys.executable else '3.10'}"
    python, stamp = folder / "bin" / "python", folder / "installed"
    folder.parent.mkdir(exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not (stamp.is_file() and stamp.read_bytes() == REQUIREMENTS.read_bytes()):
            subprocess.run([base, "-m", "venv", "--clear", folder], check=True)
            install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            subprocess.run([python, *install, "-r", REQUIREMENTS], check=True)
            stamp.write_bytes(REQUIREMENTS.read_bytes())
    return python


def _pythons() -> Iterator[str]:
    """Pythons to take, the best first."""
    if found := shutil.which("python3.10"):
        yield from _working(found)
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=True)
        for found in sorted(Path(root.stdout.strip(), "versions").glob("3.10.*/bin/python3.10")):
            yield from _working(str(found))
    yield sys.executable


def _working(python: str) -> Iterator[str]:
    """pyenv's stand-ins are there whether or not a version is chosen."""
    if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
        yield python
