"""The virtual environment of the emulator. The first use creates it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from local.error import LocalError
from local.lock import locked
from local.paths import CACHE, ROOT

REQUIREMENTS = Path(__file__).with_name("ministack-requirements.txt")
FOLDER = ROOT / ".venv-ministack"


def interpreter(folder: Path = FOLDER, requirements: Path = REQUIREMENTS) -> Path:
    """The path of the interpreter that runs the emulator and its Lambda functions.

    The first call installs ``requirements``, which takes some seconds. Raises LocalError.
    """
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    wanted = hashlib.sha256(sys.version.encode() + requirements.read_bytes()).hexdigest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / f"{folder.name}.lock"):  # two commands at the same time install once
        if not (stamp.is_file() and stamp.read_text() == wanted and python.exists()):
            stamp.unlink(missing_ok=True)
            _run(sys.executable, "-m", "venv", "--clear", folder)
            _run(python, *_PIP_INSTALL, "-r", requirements)
            stamp.write_text(wanted)
    return python


_PIP_INSTALL = ("-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check")


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        step = " ".join(map(str, command))
        raise LocalError(f"cannot make a virtual environment: {why[-1]} (in: {step})")
