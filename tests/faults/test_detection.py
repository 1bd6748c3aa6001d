"""Verdicts on runs of which it is known what is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tocsin.evaluation import check
from tocsin.model import Role
from tocsin.tensors import LocalStorage
from tocsin.watch import to_watch
from tocsin_hooks import Hook, modes

SAVES = 40


def guessing(run: Path, evaluations: int) -> None:
    """A model that predicts nothing, with so many batches of evaluation early in the training."""
    random = np.random.default_rng(0)
    steps = [modes.TRAIN] * SAVES
    steps[10:10] = [modes.EVAL] * evaluations
    with Hook(run, save_interval=1, max_overhead=None) as hook:
        for mode in steps:
            labels, predictions = random.normal(size=(2, 64))
            with hook.step(mode):
                hook.save("labels", labels, role=Role.LABEL, raw=True)
                hook.save("predictions", predictions, role=Role.PREDICTION, raw=True)


@pytest.mark.parametrize("evaluations", [0, 1, 20])
def test_few_evaluations_do_not_hide_that_training_learns_nothing(
    tmp_path: Path, evaluations: int
) -> None:
    run = tmp_path / "run"
    guessing(run, evaluations)
    checkpoint, _ = check(LocalStorage(run), to_watch({"rules": ["NoBetterThanGuessing"]}))
    assert checkpoint.steps == SAVES + evaluations
    assert checkpoint.rules["NoBetterThanGuessing"].status.value == "IssuesFound"
