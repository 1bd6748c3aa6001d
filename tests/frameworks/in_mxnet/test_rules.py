"""Rules over Gluon trainings: quiet over what is well, and not over what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxnet as mx
import pytest
from mxnet.gluon import nn


def test_nothing_is_wrong_with_a_training_that_learns(
    train: Any, network: Any, tmp_path: Path, verdicts: Any
) -> None:
    train(network(), 120, rate=0.3)
    found = verdicts(tmp_path / "run")
    assert {name for name, status in found.items() if status == "IssuesFound"} == set()
    judged = {name for name, status in found.items() if status == "NoIssuesFound"}
    assert {"DeadRelu", "VanishingGradient", "LossNotDecreasing", "WeightUpdateRatio"} <= judged


def deep_sigmoids() -> list[Any]:
    return [*[lambda: nn.Dense(8, activation="sigmoid")] * 12, lambda: nn.Dense(2)]


def dead_relus() -> list[Any]:
    negative = mx.init.Constant(-100)
    return [
        lambda: nn.Dense(16, activation="relu", bias_initializer=negative),
        lambda: nn.Dense(2),
    ]


@pytest.mark.parametrize(
    ("rule", "blocks", "rate"),
    [
        ("DeadRelu", dead_relus, 0.1),
        ("VanishingGradient", deep_sigmoids, 0.1),
        ("ExplodingTensor", list, 1e30),
    ],
)
def test_the_rule_for_it_fires(
    train: Any, network: Any, tmp_path: Path, verdicts: Any, rule: str, blocks: Any, rate: float
) -> None:
    train(network(*blocks()), 40, rate=rate)
    assert verdicts(tmp_path / "run", [rule]) == {rule: "IssuesFound"}
