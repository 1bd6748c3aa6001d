"""Python in the docs runs, or a comment before it says why not.

The pages of rules show files of ``examples/rules``, which have tests of their own.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tocsin import create_trial
from tocsin.model import Mode, TensorSummary
from tocsin.rules import forget
from tocsin.tensors import END_MARKER, Captured, Collection, LocalStorage, RunWriter
from tocsin_hooks import Hook

ROOT = Path(__file__).parents[3]
DOCUMENTS = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "hooks").glob("*.md")]
WRITTEN_FOR_SMDEBUG = ROOT / "examples" / "rules_custom" / "written_for_smdebug.py"

_PYTHON = re.compile(r"(<!-- not run: .+ -->\n)?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_A_STEP = (np.ones(3), np.ones(3))
_FIRED_AT = {"step": 10, "mode": "TRAIN", "mode_step": 10}
_FIRED = {"RuleConfigurationName": "LossSpike", "FiredAt": _FIRED_AT}
_PREPARED: dict[str, Any] = {  # what the pages take as given
    "Hook": Hook,
    "run": "runs/several",
    "rank": 0,
    "world_size": 2,
    "shared_id": "start-1",
    "checkpoint": {},
    "epochs": 1,
    "training": [_A_STEP],
    "loader": [_A_STEP],
    "weights": {"fc": np.ones(3)},
    "train_on": lambda images, labels: (1.0, {"fc": np.ones(3)}),
    "evaluate": lambda: 1.0,
}


def blocks() -> Iterator[Any]:
    for path in sorted(DOCUMENTS):
        for at, (reason, text) in enumerate(_PYTHON.findall(path.read_text())):
            if not reason:
                yield pytest.param(text, id=f"{path.name}-{at}")


@pytest.mark.parametrize("text", list(blocks()))
def test_it_runs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for run in ("jobs/j1/debug-output", "runs/j1", "runs/first"):
        write_run(tmp_path / run)
    (tmp_path / "watch.yaml").write_text("rules: [ExplodingTensor]\n")
    (tmp_path / "found.json").write_text(json.dumps({"rules": [_FIRED]}))
    (tmp_path / "my_rules").mkdir()
    rule = WRITTEN_FOR_SMDEBUG.read_text().replace("smdebug.rules.rule", "tocsin")
    (tmp_path / "my_rules" / "loss.py").write_text(rule)
    text = re.sub(r"s3://bucket\b", str(tmp_path), text, flags=re.IGNORECASE)
    page = ModuleType("page")
    vars(page).update(_PREPARED, trial=create_trial("runs/first"))
    monkeypatch.setitem(sys.modules, "page", page)
    try:
        exec(compile(text, "page.md", "exec"), vars(page))  # noqa: S102 - a text of ours
    finally:
        forget("page")
        sys.modules.pop("my_rules.loss", None)


def write_run(path: Path) -> None:
    storage = LocalStorage(path)
    writer = RunWriter(storage, run_id="r1")
    losses = Collection("losses", include_regex=("^loss$",))
    writer.write_collections([losses, Collection("weights", include_regex=("weight$",))])
    for step in (0, 10, 500):
        weight = Captured("fc.weight", np.ones((2, 2)), summary=TensorSummary(l2=2.0))
        writer.write(step, Mode.TRAIN, step, [Captured("loss", np.float32(2.0)), weight])
    storage.write(END_MARKER, b"")
