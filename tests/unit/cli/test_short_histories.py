"""Verdicts on histories of few rows, and on columns beside the losses."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

FLAT = [0.6931 + 0.001 * (-1) ** at for at in range(28)]
LEARNS = [0.1 + 2 * math.exp(-at / 4) for at in range(28)]

TURNS = [abs(at - 8) / 10 + 0.5 for at in range(28)]  # an evaluation loss, best at epoch 8
RISES = [0.9 - 0.4 * 0.9**at for at in range(28)]


def table(**columns: Sequence[float]) -> str:
    """A CSV of epochs."""
    rows = zip(*columns.values(), strict=True)
    lines = [f"{epoch},{','.join(f'{x:.6g}' for x in row)}" for epoch, row in enumerate(rows)]
    return "\n".join([",".join(("epoch", *columns)), *lines, ""])


def verdicts(tocsin, path: Path) -> tuple[set[str], list[str]]:
    """The configurations that fired, and those with too few steps."""
    document = tocsin("check", path, "--json").json
    fired = {
        rule["RuleConfigurationName"]
        for rule in document["rules"]
        if rule["RuleEvaluationStatus"] == "IssuesFound"
    }
    return fired, document["not_judged"]["too_few_steps"]


@pytest.mark.parametrize(
    ("columns", "fires"),
    [
        ({"loss": LEARNS, "val_loss": LEARNS}, set()),
        ({"loss": FLAT, "val_loss": FLAT}, {"LossNotDecreasing"}),
        ({"loss": FLAT[:13]}, {"LossNotDecreasing"}),
        ({"loss": [2 + 1.6 * at for at in range(20)]}, {"LossDiverging"}),
        ({"loss": [2 * 1.6**at for at in range(10)]}, {"LossDiverging"}),
        (
            {"loss": LEARNS, "val_accuracy": [0.9 if at < 14 else 0.1 for at in range(28)]},
            {"ScoreLost"},
        ),
        ({"loss": LEARNS, "val_accuracy": [0.9 - 0.4 * 0.8**at for at in range(28)]}, set()),
        ({"loss": LEARNS, "val_loss": TURNS}, {"Overtraining", "Overfit"}),
        ({"loss": LEARNS, "val_loss": TURNS, "val_acc": RISES}, set()),
        (
            {"loss": LEARNS, "val_loss": [0.5 * 1.05**at for at in range(28)], "val_acc": RISES},
            {"Overfit"},
        ),
        (
            {"loss": LEARNS, "val_loss": TURNS, "val_acc": [0.9] * 28},
            {"Overtraining", "Overfit"},
        ),
        ({"loss": LEARNS, "reward": [math.nan] * 28}, set()),
        ({"loss": LEARNS, "val_loss": [math.nan if at > 20 else 1.0 for at in range(28)]}, None),
    ],
    ids=[
        "learns",
        "flat",
        "flat for 13 epochs",
        "grows",
        "explodes in 10 epochs",
        "loses its accuracy",
        "gains accuracy",
        "overfits",
        "overfits by its loss, gains accuracy",
        "overfits from the first epoch on, gains accuracy",
        "overfits and gains nothing",
        "a metric that is not known",
        "an evaluation that is not finite",
    ],
)
def test_epochs(
    tocsin, tmp_path: Path, columns: dict[str, list[float]], fires: set[str] | None
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(table(**columns))
    fired, _ = verdicts(tocsin, path)
    if fires is None:
        assert "ExplodingTensor" in fired
    else:
        assert fired == fires


def test_a_rule_without_its_second_look_is_not_clean(tocsin, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(table(loss=FLAT[:11]))
    fired, too_few = verdicts(tocsin, path)
    assert fired == set()
    assert "LossNotDecreasing" in too_few


def steps(**columns: Sequence[float]) -> str:
    return table(**columns).replace("epoch", "step", 1)


@pytest.mark.parametrize(
    ("norms", "rule"),
    [
        ([1.0] * 30 + [10 ** (at / 5) for at in range(30)], "GradientExplosion"),
        ([10 ** (at / 10) for at in range(60)], "GradientExplosion"),
        ([1.0] * 30 + [0.0] * 30, "NoGradient"),
        ([2 * math.exp(-at / 8) + 1e-4 for at in range(60)], None),
    ],
)
def test_norms_of_gradients(tocsin, tmp_path: Path, norms: list[float], rule: str | None) -> None:
    path = tmp_path / "log.csv"
    noise = Random(1)
    stays = [1 + noise.gauss(0, 0.01) for _ in norms]
    losses = stays if rule else [*LEARNS, *[0.1] * 32]
    path.write_text(steps(loss=losses, grad_norm=norms))
    fired, _ = verdicts(tocsin, path)
    assert (rule in fired) if rule else fired == set()


def test_a_learning_rate_that_was_rounded_is_not_0(tocsin, tmp_path: Path) -> None:
    rates = [1e-4 * (1 - at / 60) for at in range(60)]
    losses = [0.1 + 2 * math.exp(-at / 15) for at in range(60)]
    for name, text in (
        ("rounded", "\n".join(f"{at},{losses[at]},{rates[at]:.4f}" for at in range(60))),
        ("0", "\n".join(f"{at},{losses[at]},{0 if at > 30 else 0.00012345}" for at in range(60))),
    ):
        path = tmp_path / f"{name}.csv"
        path.write_text(f"step,loss,lr\n{text}\n")
        fired, _ = verdicts(tocsin, path)
        assert ("LearningRateSchedule" in fired) is (name == "0")


def test_a_history_that_has_ended_is_not_stalled(tocsin, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = ({"step": at, "_timestamp": 1.7e9 + at * 16200, "loss": 2 - at / 5} for at in range(4))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    fired, _ = verdicts(tocsin, path)
    assert fired == set()


def test_nor_is_one_whose_last_save_came_late(tocsin, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    times = [*(100 * at for at in range(30)), 9000]
    rows = (
        {"step": at, "_timestamp": 1.7e9 + time, "loss": 2 - at / 20}
        for at, time in enumerate(times)
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert verdicts(tocsin, path)[0] == set()


@pytest.mark.parametrize(("first", "fires"), [(0, {"Underfitting"}), (9000, set())])
def test_a_history_without_the_start_of_its_training(
    tocsin, tmp_path: Path, first: int, fires: set[str]
) -> None:
    """A loss that has long been low falls slowly: that is no underfitting."""
    path = tmp_path / "log.csv"
    noise = Random(1)
    rows = (f"{first + 10 * at},{4.6 - at / 5000 + noise.gauss(0, 0.02)}" for at in range(300))
    path.write_text("step,loss\n" + "\n".join(rows))
    assert verdicts(tocsin, path)[0] & {"Underfitting"} == fires


UNEVEN = Random(2)
STEADY = [0.2 * UNEVEN.uniform(0.7, 1.5) for _ in range(60)]
LEARNED = [0.2 + 2 * 0.95**at for at in range(60)]


@pytest.mark.parametrize(
    ("columns", "fires"),
    [
        ({"step_time": [*STEADY[:30], *(10 * each for each in STEADY[30:])]}, {"SlowerThanBefore"}),
        ({"step_time": [1.0, *STEADY[1:]]}, set()),
        (
            {"step_time": [1.0] * 60, "data_time": [0.8] * 60, "gpu_util": [8.0] * 60},
            {"InputBottleneck", "LowGPUUtilization"},
        ),
        ({"step_time": [1.0] * 60, "data_time": [0.05] * 60, "gpu_util": [91.0] * 60}, set()),
        ({"time": STEADY, "data_time": [0.15] * 60}, {"InputBottleneck"}),
        ({"epoch_time": [10.0 * at for at in range(60)]}, set()),
        ({"gpu_util": [0.91] * 60}, set()),
    ],
    ids=[
        "ten times slower",
        "a slow first step",
        "waits for data",
        "does not wait",
        "time beside data_time is that of the step",
        "a clock",
        "a share is no percentage",
    ],
)
def test_columns_about_the_machine(
    tocsin, tmp_path: Path, columns: dict[str, list[float]], fires: set[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(steps(loss=LEARNED, **columns))
    fired, _ = verdicts(tocsin, path)
    assert fired == fires
