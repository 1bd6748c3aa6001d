"""examples/digits_xgboost.py, as people run it: each fault is found by the rule that is for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tocsin.tensors import END_MARKER

from tests.waiting import PATIENCE

SCRIPT = Path(__file__).parents[3] / "examples" / "digits_xgboost.py"


@pytest.mark.parametrize("seed", ["0", "1"])
@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        (None, None),
        ("deep", "TreeDepth"),
        ("overfit", "Overfit"),
        ("leak", "FeatureImportanceOverweight"),
        ("imbalance", "ClassImbalance"),
    ],
)
def test_the_rule_for_it_fires(
    tmp_path: Path, verdicts: Any, fault: str | None, rule: str | None, seed: str
) -> None:
    chosen = ["--fault", fault] if fault else []
    subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path), "--seed", seed, *chosen],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert (tmp_path / END_MARKER).exists()
    fired = {name for name, status in verdicts(tmp_path).items() if status == "IssuesFound"}
    assert rule in fired if rule else not fired


def test_its_length_can_be_chosen(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--out", str(tmp_path), "--steps", "5"]
    subprocess.run(
        [*command, "--save-interval", "1"], check=True, capture_output=True, timeout=PATIENCE
    )
    assert len(list((tmp_path / "index").rglob("*.json"))) == 5
