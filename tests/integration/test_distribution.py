"""The distribution: built, checked as an index checks it, installed into an empty environment."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_installs_and_runs_where_nothing_else_is(tmp_path: Path) -> None:
    files, empty = tmp_path / "dist", tmp_path / "empty"
    run(sys.executable, "-m", "hatchling", "build", "-d", files, folder=ROOT)
    (wheel,), (source,) = files.glob("*.whl"), files.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source, folder=tmp_path)
    packages = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in packages if "dist-info" not in name} == {"tocsin", "tocsin_hooks"}
    venv.create(empty, with_pip=False)
    python = empty / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-compile", f"{wheel}[cli]", folder=tmp_path)
    run(python, "-c", "import tocsin, tocsin_hooks", folder=tmp_path)
    assert "check" in run(empty / "bin" / "tocsin", "--help", folder=tmp_path)
