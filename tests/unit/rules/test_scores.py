"""Scores of evaluations beside their losses, from evaluation to evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from tocsin.model import Mode, Role
from tocsin.rules import Step, Tensor
from tocsin.rules._loss_names import select_losses
from tocsin.rules._train_eval import follow_losses
from tocsin.rules.evaluation._scores import are_better, follow_scores

MakeTensor = Callable[..., Tensor]

TURNS = (1.0, 0.6, 0.4, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8)  # a loss, best in the middle
GAINS = (0.5, 0.6, 0.7, 0.7, 0.7, 0.8, 0.85, 0.9, 0.9)
LOSES = (0.5, 0.6, 0.7, 0.7, 0.7, 0.6, 0.5, 0.5, 0.5)
STAYS = (0.5, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7)
NOISY = (0.5, 0.6, 0.7, 0.8, 0.6, 0.7, 0.85, 0.65, 0.8)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({}, False),
        ({"val_acc": GAINS}, True),
        ({"val_acc": LOSES}, False),
        ({"val_acc": STAYS}, False),
        ({"val_acc": NOISY}, False),
        ({"val_acc": GAINS, "val_auc": STAYS}, False),  # half are not most
        ({"val_acc": GAINS, "val_auc": GAINS, "val_f1": LOSES}, True),
        ({"train_acc": GAINS}, False),  # of training
        ({"val_speed": GAINS}, False),  # not known to rise
        ({"val_acc": [None, None, None, None, None, None, *GAINS[6:]]}, False),  # none at the best
        ({"val_acc": [*GAINS[:5], float("nan"), *GAINS[6:]]}, True),
    ],
    ids=[
        "no score",
        "gains",
        "loses",
        "stays",
        "noise",
        "one of two gains",
        "two of three gain",
        "of training",
        "another metric",
        "begins after the best",
        "once not finite",
    ],
)
def test_most_scores_are_better_than_at_the_best_loss(
    make_tensor: MakeTensor, scores: Mapping[str, Sequence[float | None]], expected: bool
) -> None:
    losses: Any = {}
    state: Any = {}
    for at, loss in enumerate((*TURNS, TURNS[-1])):
        values = {"val_loss": loss} | {
            name: column[min(at, len(TURNS) - 1)] for name, column in scores.items()
        }
        tensors = tuple(
            make_tensor(name, value, role=Role.METRIC)
            for name, value in values.items()
            if value is not None
        )
        step = Step(at, Mode.GLOBAL, at, float(at), {"losses": tensors})
        losses, finished, _ = follow_losses(losses, step, select_losses(tensors, ()), None)
        state = follow_scores(state, step, tensors, finished)
    assert are_better(state, "val_loss") is expected
    assert are_better(state, "another_loss") is False
