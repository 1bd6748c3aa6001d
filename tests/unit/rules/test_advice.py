"""Advice for what is trained."""

from __future__ import annotations

import re

import pytest
from tocsin.model import Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor, advice_for, find_rule, get_rule, rule_names
from tocsin.rules.gradients._updates import rate_to_try


@pytest.mark.parametrize(
    ("tensor", "for_trees"),
    [
        ("train-rmse", True),
        ("validation_0-mlogloss", True),
        ("out-of-time-auc", True),
        ("loss", False),
        ("val_loss", False),
        ("CrossEntropyLoss_output_0", False),
        (None, False),
    ],
)
def test_trees_are_known_by_their_metrics(tensor: str | None, for_trees: bool) -> None:
    rule = get_rule("LossDiverging")
    assert advice_for(rule, tensor) == (rule.advice_for_trees if for_trees else rule.advice)
    assert "eta" in rule.advice_for_trees
    assert "clip" not in rule.advice_for_trees


def test_trees_that_do_not_generalise_are_told_their_own_parameters() -> None:
    advice = advice_for(get_rule("LossGap"), "validation-logloss")
    assert "max_depth" in advice
    assert "batch" not in advice


def test_other_rules_have_one_advice_for_all() -> None:
    overfit = get_rule("Overfit")
    assert advice_for(overfit, "train-rmse") == overfit.advice
    assert advice_for(find_rule("NoSuchRule"), "loss") == ""


PYTORCH = re.compile(
    r"zero_grad|requires_grad|DataLoader|torchrun|torch.compile|detach|num_workers"
)


@pytest.mark.parametrize("name", [each for each in rule_names() if each != "Dataloader"])
def test_advice_that_names_a_call_of_pytorch_names_that_of_keras(name: str) -> None:
    advice = get_rule(name).advice
    assert "Keras" in advice or not PYTORCH.search(advice)


@pytest.mark.parametrize("name", rule_names())
def test_trees_are_not_told_to_clip_gradients(name: str) -> None:
    """Rules about losses fire on trees as well."""
    rule = get_rule(name)
    reads = rule().reads().tensors.values()
    if set(reads) and all(set(each.roles) <= {Role.LOSS, Role.METRIC} for each in reads):
        assert "clip" not in advice_for(rule, "train-rmse")


@pytest.mark.parametrize(
    ("rates", "gain", "expected"),
    [
        ((0.3,), 1000.0, "; the learning rate is 0.3: try 0.0003"),
        ((0.1, 0.01), 5.0, "; the learning rate is 0.1: try 0.02"),
        ((1e-6,), 0.01, "; the learning rate is 1e-06: try 0.0001"),
        ((0.3,), 1e9, "; the learning rate is 0.3: try 0.0003"),  # not any farther at once
        ((1e-6,), 1e-9, "; the learning rate is 1e-06: try 0.001"),
        ((0.3,), 0.0, ""),
        ((0.3,), float("inf"), ""),
        ((0.0,), 9.0, ""),
        ((), 9.0, ""),
    ],
)
def test_the_rate_to_try(rates: tuple[float, ...], gain: float, expected: str) -> None:
    read = tuple(Tensor(f"lr/{at}", "w", TensorSummary(mean=r)) for at, r in enumerate(rates))
    assert rate_to_try(Step(9, Mode.TRAIN, 9, 0.0, {"rates": read}), gain) == expected
