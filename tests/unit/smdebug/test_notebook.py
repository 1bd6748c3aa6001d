"""The notebook on the page of the migration runs with the imports that it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "tests" / "fixtures" / "smdebug"
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "migration.md").read_text(), re.S)
BEFORE = next(block for block in BLOCKS if "from smdebug import modes" in block)
AFTER = next(block for block in BLOCKS if "from tocsin.smdebug import modes" in block)


def test_the_imports_alone_change() -> None:
    cell, _, rest = BEFORE.partition("\n\n")
    assert re.sub(r"(?m)^from smdebug", "from tocsin.smdebug", cell) == AFTER.strip()
    assert "smdebug" not in rest


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    rest = BEFORE.partition("\n\n")[2]
    names: dict[str, Any] = {
        "__name__": "notebook",
        "run": str(RUNS / "torch_mlp" / "run"),
        "profiler": str(RUNS / "profiler_torch" / "profiler-output"),
    }
    exec(compile(f"{AFTER}\n{rest}", "notebook", "exec"), names)  # noqa: S102
    out = capsys.readouterr().out
    assert names["losses"]
    assert "LossRises" in out
    assert "Step:ModeKeys.TRAIN" in out
