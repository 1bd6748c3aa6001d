"""What is uploaded can be read by Lambda, which runs as another user than whoever synthesises."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STRICT = 0o077
# The app as it is, but that a package of two files takes the place of what pip installs.
APP = """
import runpy
from tocsin_cdk import bundle

def install(target, folder):
    package = folder / "numpy"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "_core.so").touch(0o777)

bundle._pip_install = install
runpy.run_path("app.py", run_name="__main__")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the app needs of ours, as a clone has it that was made under a strict umask."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    shutil.copy(ROOT / "app.py", folder)
    for name in ("functions", "infra", "rules_layer"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    (folder / "rules").mkdir()
    (folder / "rules" / "own.py").write_text("class NoRule: ...\n")
    (folder / "watch.json").write_text('{"custom_rules": "rules", "rules": []}')
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode & ~STRICT)
    return folder


def test_every_file_of_every_asset_under_a_strict_umask(checkout: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    context = {"captureBucket": "our-runs", "watchFile": str(checkout / "watch.json")}
    done = subprocess.run(
        [sys.executable, "-c", APP],
        cwd=checkout,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(checkout / "infra"), str(checkout / "rules_layer")]),
            "CDK_OUTDIR": str(out),
            "CDK_CONTEXT_JSON": json.dumps(context),
        },
        umask=STRICT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modes = {
        path.relative_to(out): path.stat().st_mode & 0o777
        for asset in out.glob("asset.*")
        for path in asset.rglob("*")
        if path.is_file()
    }
    names = [path.as_posix().partition("/")[2] for path in modes]
    assert (
        names.count("handler.py") == 7
    )  # of evaluate, act, patrol, fleet, report, replay, bucket_events
    for name in ("watch.json", "python/tocsin/model.py", "python/tocsin_custom_rules/own.py"):
        assert name in names
    executable = {path.name for path, mode in modes.items() if mode == 0o755}
    assert executable == {"_core.so"}
    assert set(modes.values()) == {0o644, 0o755}
