from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions import ActionOutcome
from tocsin.actions.metric import metric

LARGEST = 2.0**359


@pytest.mark.parametrize(
    ("action", "evidence", "name", "value"),
    [
        ("metric", {"abs_mean": 3.1e-9, "threshold": 1e-7}, "TrainingScalar", 3.1e-9),
        ("metric:loss", {"loss": 2}, "loss", 2.0),
        ("metric:a:b c", {"loss": -2.5}, "a:b c", -2.5),
        ("metric", {"tensor": "w", "flag": True, "gone": None, "ratio": 0.0}, "TrainingScalar", 0),
        ("metric", {"loss": "NaN", "limit": 1.0}, "TrainingScalarNonFinite", 1.0),
        ("metric:loss", {"loss": "Infinity"}, "lossNonFinite", 1.0),
        ("metric:loss", {"loss": "-Infinity"}, "lossNonFinite", 1.0),
        ("metric", {"loss": 1e300}, "TrainingScalar", LARGEST),
        ("metric", {"loss": -(10**400)}, "TrainingScalar", -LARGEST),
        ("metric", {"loss": 1e-300}, "TrainingScalar", 0.0),
        ("metric:" + "x" * 255, {"loss": 1.0}, "x" * 255, 1.0),
    ],
)
def test_publishes_the_first_number(
    ask: Any, world: Any, action: str, evidence: Any, name: str, value: float
) -> None:
    result = metric(ask(action, {"Evidence": evidence}), *world.ports)
    assert result.outcome is ActionOutcome.DONE
    dimensions = {"Rule": "VanishingGradient", "TrainingJobName": "j1"}
    assert world.did == [("metric", (name, value, dimensions))]


@pytest.mark.parametrize(
    ("action", "evidence"),
    [
        ("metric", {}),
        ("metric", {"tensor": "w", "gone": None, "flag": False}),
        ("metric:", {"loss": 1.0}),
        ("metric:a\nb", {"loss": 1.0}),
        ("metric:" + "x" * 250, {"loss": "NaN"}),
    ],
)
def test_refuses_what_cloudwatch_would(ask: Any, world: Any, action: str, evidence: Any) -> None:
    result = metric(ask(action, {"Evidence": evidence}), *world.ports)
    assert (result.outcome, world.did) == (ActionOutcome.REFUSED, [])
    assert result.detail.isprintable()


@pytest.mark.parametrize(
    ("job", "label"), [("Zürich", "Zurich"), (":j", "j"), ("::", "?"), ("実験", "??")]
)
def test_dimensions_are_as_cloudwatch_wants_them(
    ask: Any, world: Any, job: str, label: str
) -> None:
    metric(ask("metric", {"TrainingJobName": job}), *world.ports)
    [(_, (_, _, dimensions))] = world.did
    assert dimensions["TrainingJobName"] == label


def test_each_alert_gives_its_number(ask: Any, world: Any) -> None:
    alerts = [
        {"RuleConfigurationName": "a", "Evidence": {"loss": 2.0}},
        {"RuleConfigurationName": "b", "Rule": "B\n", "Evidence": {}},
        {"RuleConfigurationName": "c", "Evidence": {"loss": "NaN"}},
    ]
    result = metric(ask("metric:loss", *alerts), *world.ports)
    assert result.outcome is ActionOutcome.DONE
    assert result.detail == (
        "published loss as loss = 2 in namespace Tocsin; "
        "published loss as lossNonFinite = 1 in namespace Tocsin; "
        "rule B gave no number that could be published"
    )
    put = [(what[0], what[2]["Rule"]) for _, what in world.did]
    assert put == [("loss", "a"), ("lossNonFinite", "c")]


def test_of_many_the_detail_stays_short(ask: Any, world: Any) -> None:
    result = metric(ask("metric", *[{}] * 200), *world.ports)
    assert len(world.did) == 200
    assert len(result.detail) <= 1000


def test_without_an_alert_there_is_no_number(ask: Any, world: Any, make_alert: Any) -> None:
    result = metric(ask("metric", resolved=(make_alert(),)), *world.ports)
    assert (result.outcome, world.did) == (ActionOutcome.REFUSED, [])
