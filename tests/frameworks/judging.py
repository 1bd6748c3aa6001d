"""Checks the log of a training that was judged beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tocsin.evaluation import check
from tocsin.model import RuleStatus
from tocsin.tensors import LocalStorage


def assert_judged(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line for each rule that fires, the same ones as in a check, and a table at the end."""
    checkpoint, _ = check(LocalStorage(run))
    fired = {
        name for name, rule in checkpoint.rules.items() if rule.status is RuleStatus.ISSUES_FOUND
    }
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    said = {line.split(": ")[1] for line in lines if line.startswith("step ")}
    assert fired
    assert fired <= said
    assert lines[-1] == f"what to do: tocsin check {run}"
