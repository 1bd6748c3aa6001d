"""The environment with PyTorch and XGBoost, made when it is first needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-detection"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def enter(module: str = "benchmarks.detection") -> None:
    """Go on with a module in that environment, unless this is it: then return."""
    if Path(sys.prefix) == FOLDER:
        return
    from local.interpreter import interpreter  # which needs boto3, as only the other one has it

    if not (FOLDER / "installed").is_file():
        print("installing PyTorch and XGBoost (once, some minutes) …", file=sys.stderr)
    python = interpreter(FOLDER, Path(__file__).with_name("requirements.txt"))
    paths = os.pathsep.join(str(ROOT / room) for room in (".", "rules_layer", "hooks"))
    os.environ.update(_ONE_THREAD, PYTHONPATH=paths)
    os.execv(python, [str(python), "-m", module, *sys.argv[1:]])  # noqa: S606 - no shell
