from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions import Outcome, Request
from tocsin.actions._metric import metric

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
    make_alert: Any, world: Any, action: str, evidence: Any, name: str, value: float
) -> None:
    result = metric(Request(make_alert(Evidence=evidence), action), world.ports)
    assert result.outcome is Outcome.DONE
    dimensions = {"Rule": "VanishingGradient", "TrainingJobName": "j1"}
    assert world.did == [("metric", (name, value, dimensions))]


@pytest.mark.parametrize(
    ("action", "evidence"),
    [
        ("metric", {}),
        ("metric", {"tensor": "w", "gone": None, "flag": False}),
        ("metric:", {"loss": 1.0}),
        ("metric::colon", {"loss": 1.0}),
        ("metric: space", {"loss": 1.0}),
        ("metric:verlüst", {"loss": 1.0}),
        ("metric:a\nb", {"loss": 1.0}),
        ("metric:" + "x" * 256, {"loss": 1.0}),
        ("metric:" + "x" * 250, {"loss": "NaN"}),
    ],
)
def test_refuses_what_cloudwatch_would(
    make_alert: Any, world: Any, action: str, evidence: Any
) -> None:
    result = metric(Request(make_alert(Evidence=evidence), action), world.ports)
    assert (result.outcome, world.did) == (Outcome.REFUSED, [])
    assert result.detail.isprintable()


@pytest.mark.parametrize(
    ("job", "label"), [("Zürich", "Zurich"), (":j", "j"), ("::", "?"), ("実験", "??")]
)
def test_dimensions_are_as_cloudwatch_wants_them(
    make_alert: Any, world: Any, job: str, label: str
) -> None:
    metric(Request(make_alert(TrainingJobName=job), "metric"), world.ports)
    [(_, (_, _, dimensions))] = world.did
    assert dimensions["TrainingJobName"] == label
