"""The benchmark of hooks measures something: tiny models, one round, our side for real."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks._hooks_sides import PLAIN, Side, measure
from benchmarks._models import MODELS
from benchmarks.hooks import table

PYTHON = Path(sys.executable)
OURS = Side("Tocsin", "_hooks_tocsin", lambda: PYTHON, ("summaries",))
SMDEBUG = Side("smdebug", "_hooks_smdebug", lambda: PYTHON, ("reductions",))


@pytest.mark.parametrize("model", MODELS)
def test_a_step_trains(model: str) -> None:
    training = MODELS[model]("cpu", "small")
    before = [parameter.detach().clone() for parameter in training.model.parameters()]
    training.step()
    after = list(training.model.parameters())
    moved = [not (old == new).all() for old, new in zip(before, after, strict=True)]
    assert sum(moved) >= 0.9 * len(moved)


def test_both_sides_and_what_is_in_the_way_of_one(tmp_path: Path) -> None:
    ours, theirs = measure([OURS, SMDEBUG], "resnet", 2, tmp_path, small=True)
    assert ours.error is None
    assert "smdebug" in str(theirs.error)  # it is not in this environment
    assert len(ours.blocks[PLAIN]) == len(ours.blocks["summaries"]) == 2
    run = ours.runs["summaries"]
    assert run["saves"] == 3
    assert run["bytes"] > 10_000
    assert ours.runs[PLAIN]["saves"] == 0
    assert ours.memory[PLAIN] == 0
    assert len(list(table("ResNet-18", [ours, theirs]))) == 7
