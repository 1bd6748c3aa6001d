from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import HELD_OUT, TRAINED, Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules._loss_names import classify_loss, select_losses
from tocsin.rules._train_eval import FinishedEvaluation, follow_losses

TRAIN, EVAL, PREDICT, GLOBAL = Mode.TRAIN, Mode.EVAL, Mode.PREDICT, Mode.GLOBAL

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


@pytest.mark.parametrize(
    ("mode", "name", "expected"),
    [
        (TRAIN, "loss", (False, "loss")),
        (GLOBAL, "loss", (False, "loss")),
        (EVAL, "loss", (True, "loss")),
        (PREDICT, "loss", (None, "loss")),
        (GLOBAL, "train-rmse", (False, "rmse")),
        (GLOBAL, "validation-rmse", (True, "rmse")),
        (GLOBAL, "validation_0-rmse", (True, "rmse")),
        (GLOBAL, "eval-mlogloss@3", (True, "mlogloss@3")),
        (GLOBAL, "test-auc", (True, "auc")),
        (GLOBAL, "held-auc", (True, "auc")),
        (GLOBAL, "holdout_1-rmse", (True, "rmse")),
        (GLOBAL, "dtest-rmse", (True, "rmse")),
        (GLOBAL, "dtrain-rmse", (False, "rmse")),
        (TRAIN, "helds-loss", (False, "helds-loss")),
        (GLOBAL, "training's l2", (False, "l2")),
        (GLOBAL, "valid_0's l2", (True, "l2")),
        (TRAIN, "val_loss", (True, "loss")),
        (TRAIN, "val/loss", (True, "loss")),
        (PREDICT, "dev.loss", (True, "loss")),
        (EVAL, "train/loss", (False, "loss")),
        (EVAL, "eval_loss", (True, "loss")),
        (TRAIN, "Validation Loss", (True, "Loss")),
        (TRAIN, "validation", (True, "")),
        (TRAIN, "valve_loss", (False, "valve_loss")),
        (TRAIN, "trainer/loss", (False, "trainer/loss")),
        (TRAIN, "loss_val", (False, "loss_val")),
        (TRAIN, "", (False, "")),
    ],
)
def test_which_side_a_loss_is_of(mode: Mode, name: str, expected: Any) -> None:
    assert classify_loss(mode, Tensor(name, "worker_0", TensorSummary())) == expected


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("validation_0-rmse", TRAINED, (False, "rmse")),
        ("validation_1-rmse", HELD_OUT, (True, "rmse")),
        ("mine-poisson-nloglik", TRAINED, (False, "poisson-nloglik")),
        ("theirs-poisson-nloglik", HELD_OUT, (True, "poisson-nloglik")),
        ("out-of-time-rmse", HELD_OUT, (True, "rmse")),
        ("out-of-time-gamma-deviance", HELD_OUT, (True, "gamma-deviance")),
        ("my-set-ndcg@5-", TRAINED, (False, "ndcg@5-")),
        ("mine-my-loss", TRAINED, (False, "my-loss")),
        ("train-auc", HELD_OUT, (True, "auc")),
        ("rmse", TRAINED, (False, "rmse")),
        ("train-loss", "acting", (False, "loss")),
    ],
)
def test_what_the_hook_knows_of_a_data_set_counts_first(
    name: str, kind: str, expected: Any
) -> None:
    tensor = Tensor(name, "worker_0", TensorSummary(), kind=kind)
    assert classify_loss(TRAIN, tensor) == expected


def followed(steps: Iterable[Step]) -> list[FinishedEvaluation]:
    """All evaluations of a run, with a state that goes through JSON."""
    state: Any = {}
    found: list[FinishedEvaluation] = []
    for step in steps:
        after, over, _ = follow_losses(state, step, step.tensors["losses"], None)
        state = msgspec.json.decode(msgspec.json.encode(after))
        found += over
    return found


def costs(evaluations: Iterable[FinishedEvaluation]) -> list[tuple[float, float | None]]:
    return [(each.cost, each.train) for each in evaluations]


@pytest.fixture
def run(make_step: MakeStep) -> Callable[[str, Iterable[float]], list[Step]]:
    """Steps whose modes are letters: t, e, p; a capital is a step that was not saved."""

    def make(modes: str, losses: Iterable[float]) -> list[Step]:
        counts = dict.fromkeys((TRAIN, EVAL, PREDICT), 0)
        values, steps = iter(losses), []
        for number, letter in enumerate(modes):
            mode = {"t": TRAIN, "e": EVAL, "p": PREDICT}[letter.lower()]
            if letter.islower():
                found = {"loss": next(values)}
                steps.append(make_step("losses", number, found, mode=mode, mode_step=counts[mode]))
            counts[mode] += 1
        return steps

    return make


@pytest.mark.parametrize(
    ("modes", "losses", "expected"),
    [
        pytest.param("ttet", [1, 3, 5, 1], [(5, 2)], id="mean of the training since"),
        pytest.param("teetet", [1, 4, 6, 2, 3, 9], [(5, 1), (3, 2)], id="an evaluation of two"),
        pytest.param("teEEet", [1, 4, 6, 9], [(5, 1)], id="not every step of it is saved"),
        pytest.param(
            "teTet", [1, 4, 6, 9], [(4, 1), (6, 1)], id="training in between is not saved"
        ),
        pytest.param("eet", [4, 6, 1], [(5, None)], id="evaluation comes first"),
        pytest.param("tepe", [1, 4, 7, 6], [(4, 1)], id="prediction ends an evaluation"),
        pytest.param("te", [1, 4], [], id="not over yet"),
        pytest.param("tt", [1, 4], [], id="no evaluation"),
        pytest.param("ee", [1, 4], [], id="nothing else"),
        pytest.param("tet", [1, np.nan, 1], [], id="validation is NaN"),
        pytest.param("ttet", [1, np.inf, 5, 1], [(5, 1)], id="training was infinite once"),
        pytest.param("tet", [1, 1e300, 1], [], id="beyond reckoning"),
    ],
)
def test_evaluations(run: Any, modes: str, losses: list[float], expected: Any) -> None:
    assert costs(followed(run(modes, losses))) == expected


def test_levels_best_noise_and_recovered_rises(run: Any) -> None:
    losses = [(9, 9.0), (8, 5.0), (7, 4.0), (6, 6.0), (5, 7.0), (4, 2.0), (3, 2.0), (2, 2.0)]
    steps = run("te" * len(losses) + "t", [number for pair in losses for number in pair] + [1.0])
    seen = followed(steps)
    assert [each.level for each in seen] == [9.0, 7.0, 5.0, 5.0, 6.0, 6.0, 2.0, 2.0]
    assert [each.best for each in seen] == [9.0, 7.0, 5.0, 5.0, 5.0, 5.0, 2.0, 2.0]
    assert [each.train_at_best for each in seen][4:] == [8.0, 8.0, 4.0, 4.0]
    assert [each.recovered for each in seen] == [0, 0, 0, 0, 0, 0, 1.0, 1.0]
    assert seen[-1].noise == 0.75  # of 0, 1.5, 0, 3, 0, 0
    assert (seen[-1].first, seen[-1].count, seen[-1].train_rise) == (9.0, 8, -1.0)


def test_the_first_training_loss_stands_in_where_there_was_none_at_the_best(run: Any) -> None:
    seen = followed(run("etet", [1.0, 5.0, 2.0, 5.0]))
    assert [each.train_at_best for each in seen] == [None, 5.0]
    assert [each.train_rise for each in seen] == [0.0, 0.0]


def test_metrics_count_if_they_are_losses_by_name(make_tensor: MakeTensor) -> None:
    names = (
        "train-rmse",
        "train-merror",
        "val_loss",
        "perplexity",
        "l2",
        "validation-poisson-nloglik",
        "train-auc",
        "lr",
        "fame",
    )
    metrics = [make_tensor(name, 1.0, role=Role.METRIC) for name in names]
    loss = make_tensor("anything", 1.0, role=Role.LOSS)
    assert select_losses((loss, *metrics), ()) == (loss, *metrics[:6])
    assert select_losses((loss, *metrics), ("auc",)) == (loss, *metrics)


def test_few_series_are_followed(make_step: MakeStep) -> None:
    state: Any = {}
    for step in range(40):
        found = {f"{side}-{step}": 1.0 for side in ("train", "eval")}
        one = make_step("losses", step, found, mode=GLOBAL)
        state, _, _ = follow_losses(state, one, one.tensors["losses"], None)
    assert len(state["train"]) == len(state["eval"]) == 8
