from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Role, TensorSummary, Verdict
from tocsin.rules import BadRule, Read, Step, build, rule_names
from tocsin.rules.loss_too_good_too_soon import LossTooGoodTooSoon

NAN, INF = float("nan"), float("inf")
MakeStep = Callable[..., Step]


def rule(profile: str = "recommended", **parameters: Any) -> LossTooGoodTooSoon:
    built, _ = build("LossTooGoodTooSoon", parameters, profile)
    assert isinstance(built, LossTooGoodTooSoon)
    return built


def judged(rule: LossTooGoodTooSoon, steps: Iterable[Step]) -> list[Verdict]:
    state: Any = {}
    verdicts = []
    for step in steps:
        state, verdict = rule.evaluate(state, step)
        verdicts.append(verdict)
    return verdicts


def first(verdicts: Iterable[Verdict]) -> int | None:
    """Which save is the first in violation."""
    return next((at for at, verdict in enumerate(verdicts) if verdict.violation), None)


@pytest.mark.parametrize(
    ("name", "values", "parameters", "expected"),
    [
        pytest.param("loss", [6.9, 0.3, *[0.01] * 9], {}, 5, id="at once"),
        pytest.param("loss", [6.9 * 0.51**at for at in range(20)], {}, 10, id="in 100 steps"),
        pytest.param("loss", [6.9 * 0.7**at for at in range(20)], {}, None, id="in 140 steps"),
        pytest.param("loss", [6.9 * 0.7**at for at in range(20)], {"steps": "200"}, 16, id="steps"),
        pytest.param("loss", [6.9, 1.0, 0.1, 0.1, 0.1, 0.1], {"percent": "2"}, 5, id="percent"),
        pytest.param("loss", [6.9, 1.0, 0.0, 1.0, 1.0], {}, None, id="one lucky batch"),
        pytest.param("loss", [0.0] * 9, {}, None, id="zero from the beginning"),
        pytest.param("loss", [-1.0, *[-500.0] * 9], {}, None, id="negative"),
        pytest.param("loss", [2.0, *[-500.0] * 9], {}, 4, id="below zero"),
        pytest.param("loss", [NAN, 6.9, *[0.01] * 9], {}, 5, id="NaN at first"),
        pytest.param("loss", [6.9, *[NAN] * 9], {}, None, id="lost"),
        pytest.param("loss", [6.9, -INF, -INF], {}, None, id="infinite"),
        pytest.param("accuracy", [0.1, *[1.0] * 9], {}, 4, id="all right"),
        pytest.param("accuracy", [1.0, 1.0, 0.9] * 3, {}, None, id="almost always right"),
        pytest.param("accuracy", [0.1, *[0.99] * 9], {}, None, id="good"),
        pytest.param("accuracy", [0.1, *[0.99] * 9], {"perfect": "0.98"}, 4, id="perfect"),
        pytest.param("accuracy", [1.0, 20.0, 30.0, 40.0], {}, None, id="in percent"),
        pytest.param("accuracy", [0.0] * 9, {}, None, id="never right"),
        pytest.param("score", [0.1, *[1.0] * 9], {"direction": "rises"}, 4, id="direction"),
        pytest.param("loss", [np.int64(900), *[np.uint8(1)] * 4], {}, 4, id="integers"),
        pytest.param("loss", [[], TensorSummary(), 6.9, *[0.0] * 4], {}, 6, id="unknown at first"),
        pytest.param("loss", [6.9], {}, None, id="one save"),
    ],
)
def test_when_it_fires(
    make_step: MakeStep,
    name: str,
    values: list[Any],
    parameters: dict[str, str],
    expected: int | None,
) -> None:
    steps = [make_step("scalars", 10 * at, {name: value}) for at, value in enumerate(values)]
    assert first(judged(rule(**parameters), steps)) == expected


def test_each_mode_counts_its_own_steps(make_step: MakeStep) -> None:
    """The first evaluation comes after many steps of training, and is perfect."""
    steps = [make_step("scalars", at, {"acc": 0.9}) for at in range(0, 1000, 10)]
    steps += [
        make_step("scalars", 1000 + at, {"acc": 1.0}, mode=Mode.EVAL, mode_step=at)
        for at in range(4)
    ]
    verdicts = judged(rule(), steps)
    assert first(verdicts) == 103


def test_afterwards_all_is_well(make_step: MakeStep) -> None:
    steps = [make_step("scalars", 10 * at, {"loss": 0.8**at}) for at in range(40)]
    verdicts = judged(rule(), steps)
    assert [verdict.outcome for verdict in verdicts[:3]] == [Outcome.UNDECIDED] * 3
    assert {verdict.outcome for verdict in verdicts[3:]} == {Outcome.HEALTHY}


def test_says_what_happened(make_step: MakeStep) -> None:
    steps = [make_step("scalars", 5 * at, {"loss": 0.01 if at else 6.9}) for at in range(5)]
    verdict = judged(rule(), steps)[-1]
    assert (verdict.reason, verdict.tensor) == (Reason.BELOW_THRESHOLD, "loss")
    assert verdict.detail == "loss fell from 6.9 to 0.01 within 20 steps"
    assert dict(verdict.evidence) == {"loss": 0.01, "first": 6.9}

    steps = [make_step("scalars", 5 * at, {"auc": 1.0 if at else 0.5}) for at in range(5)]
    verdict = judged(rule(), steps)[-1]
    assert (verdict.reason, verdict.tensor) == (Reason.ABOVE_THRESHOLD, "auc")
    assert verdict.detail == "auc is 1, next to perfect, after 20 steps"
    assert dict(verdict.evidence) == {"value": 1.0, "first": 0.5}


@pytest.mark.parametrize("found", [{}, {"loss": []}, {"loss": np.array("a")}])
def test_no_scalar_is_not_applicable(make_step: MakeStep, found: Mapping[str, Any]) -> None:
    state, verdict = rule().evaluate({}, make_step("scalars", 0, found))
    assert state == {}
    assert (verdict.outcome, verdict.reason) == (Outcome.NOT_APPLICABLE, Reason.NO_TENSOR)


def test_the_state_of_many_scalars_is_small(make_step: MakeStep) -> None:
    state: Any = {}
    for at in range(30):
        found = {f"a_loss_with_a_long_name_{number}" * 3: 1.23456789e-5 * at for number in range(9)}
        for mode in Mode:
            state, _ = rule().evaluate(state, make_step("scalars", at, found, mode=mode))
    assert len(msgspec.json.encode(state)) < 4096


def test_watches_only_where_it_is_asked_for() -> None:
    assert "LossTooGoodTooSoon" in rule_names()
    for profile in ("recommended", "sagemaker"):
        assert "LossTooGoodTooSoon" not in rule_names(profile)


def test_reads_losses_and_metrics_unless_others_are_named() -> None:
    fields = ("mean", "nan", "posinf", "neginf")
    read = Read(roles=(Role.LOSS, Role.METRIC), fields=fields)
    assert rule().reads().tensors == {"scalars": read}
    named = rule(tensor_regex="loss,cost").reads().tensors
    assert named["scalars"] == Read(regex=("loss", "cost"), fields=fields)


@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
def test_parameters_as_on_the_wire(profile: str) -> None:
    wire = {"steps": "7", "percent": "0.5", "perfect": "1", "direction": "None"}
    built = LossTooGoodTooSoon(steps=7, percent=0.5, perfect=1.0)
    assert build("LossTooGoodTooSoon", wire, profile)[0] == built


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"steps": "0"}, "steps is 0, but must be at least 1"),
        ({"percent": "100"}, "percent is 100.0, but must be from 0 to below 100"),
        ({"percent": "nan"}, "percent is nan, but must be from 0 to below 100"),
        ({"perfect": "0"}, "perfect is 0.0, but must be above 0 and at most 1"),
        ({"perfect": "99"}, "perfect is 99.0, but must be above 0 and at most 1"),
    ],
)
def test_refused_parameters(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(BadRule, match=r"^LossTooGoodTooSoon: ") as caught:
        build("LossTooGoodTooSoon", parameters)
    assert message in str(caught.value)
