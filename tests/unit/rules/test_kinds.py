from __future__ import annotations

import pytest
from tocsin.model import ACTING, COMPETING, Mode, Outcome, Role, TensorSummary
from tocsin.rules import Rule, Step, Tensor
from tocsin.rules._kinds import kind_of_loss, with_level
from tocsin.rules.loss.loss_not_decreasing import LossNotDecreasing
from tocsin.rules.loss.loss_worse import LossWorse
from tocsin.rules.loss.underfitting import Underfitting

from tests.unit.rules.judging import fired, judged


def loss(name: str, kind: str | None = None, value: float = 1.0) -> Tensor:
    return Tensor(name, "worker_0", TensorSummary(mean=value), role=Role.LOSS, kind=kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("GeneratorLoss_output_0", "adversarial"),
        ("loss_D", "adversarial"),
        ("train/g_loss", "adversarial"),
        ("GLoss", "adversarial"),
        ("d_loss_real", "adversarial"),
        ("Loss/G", "adversarial"),
        ("errD", "adversarial"),
        ("disc_loss", "adversarial"),
        ("Loss/dev", None),
        ("avg_loss", None),
        ("loss_gap", None),
        ("word_loss", None),
        ("policy_loss", "reinforcement"),
        ("TripletMarginLoss_output_0", "metric learning"),
        ("InfoNCE", "metric learning"),
        ("MarginRankingLoss_output_0", "ranking"),
        ("BYOLLoss", "self-supervised"),
        ("CrossEntropyLoss_output_0", None),
        ("factor_loss", None),
        ("support_loss", None),
        ("loss", None),
    ],
)
def test_kinds_are_known_by_names(name: str, kind: str | None) -> None:
    assert kind_of_loss(loss(name)) == kind


def test_the_hook_marks_losses_that_compete() -> None:
    assert kind_of_loss(loss("BCELoss_output_0", COMPETING)) == "adversarial"
    assert kind_of_loss(loss("loss", ACTING)) == "reinforcement"
    assert kind_of_loss(loss("actor_loss", COMPETING)) == "reinforcement"  # it has critics


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (("actor_loss", "critic_1_loss", "critic_2_loss"), "reinforcement"),
        (("critic_loss", "generator_loss"), "adversarial"),
        (("policy_loss", "TripletMarginLoss"), "reinforcement and metric learning"),
    ],
)
def test_critics_of_an_actor_are_no_adversaries(names: tuple[str, ...], kinds: str) -> None:
    assert with_level(tuple(map(loss, names)), named=False) == ((), kinds)


@pytest.mark.parametrize("rule", [LossNotDecreasing, LossWorse, Underfitting])
def test_their_level_is_not_judged_unless_they_are_named(rule: type[Rule]) -> None:
    steps = [
        Step(
            at,
            Mode.TRAIN,
            at,
            float(at),
            {"losses": (loss("policy_loss", value=1.0 + (at > 300)),)},
        )
        for at in range(0, 1000, 10)
    ]
    verdict = judged(rule(), steps)[-1]
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert verdict.detail == "the level of a loss has no meaning in reinforcement training"
    named = judged(rule(tensor_regex=("policy",)), steps)
    assert fired(named)
