"""Other people's packages in virtual environments of their own, made on demand and kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from local.interpreter import interpreter

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def python_with(name: str) -> Path:
    """The interpreter of ``.venv-NAME``, which holds what ``NAME-requirements.txt`` says."""
    return interpreter(ROOT / f".venv-{name}", HERE / f"{name}-requirements.txt")


def answer(name: str, script: str, *arguments: str | Path) -> Any:
    """What a script beside this file prints as JSON, in its last line, run in that environment."""
    done = subprocess.run(
        [python_with(name), HERE / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'rules_layer'}:{ROOT / 'hooks'}"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":  # what the Makefile asks
    print(python_with(sys.argv[1]))
