from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.machine.stalled_training_rule import StalledTrainingRule

from tests.unit.rules.judging import judged, made

OK, LATE, WAIT, NONE = (
    Outcome.HEALTHY,
    Outcome.VIOLATION,
    Outcome.UNDECIDED,
    Outcome.NOT_APPLICABLE,
)
rule = partial(made, "StalledTrainingRule")
SOME = (Tensor("loss", "worker_0", TensorSummary()),)


def history(*moments: float | str) -> list[Step]:
    """Steps at these seconds; as a string, a tick, or with ``-`` before it, a step that has no
    such tensor.
    """
    steps = []
    for number, moment in enumerate(moments):
        tick = isinstance(moment, str) and not moment.startswith("-")
        tensors = {} if tick else {"tensors": () if isinstance(moment, str) else SOME}
        time = 1e9 + abs(float(moment))
        steps.append(Step(number, Mode.TRAIN, number, time, tensors, tick=tick))
    return steps


def outcomes(rule: StalledTrainingRule, steps: list[Step]) -> list[Outcome]:
    state: Any = {}
    found = []
    for step in steps:
        after, verdict = rule.evaluate(state, step)
        assert not (step.tick and after != state), "time alone is nothing to remember"
        state = msgspec.json.decode(msgspec.json.encode(after))
        found.append(verdict.outcome)
    return found


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        pytest.param((0,), [WAIT], id="one step"),
        pytest.param((0, 10, 20), [WAIT, OK, OK], id="steps"),
        pytest.param((0, 10, 20, "1820"), [WAIT, OK, OK, WAIT], id="as long as allowed"),
        pytest.param((0, 10, 20, "1821"), [WAIT, OK, OK, LATE], id="longer"),
        pytest.param((0, 10, 20, 1821), [WAIT, OK, OK, LATE], id="seen from the next step"),
        pytest.param(
            (0, 1, 2, "9e3", "9.1e3", 9200, 9201),
            [WAIT, OK, OK, LATE, LATE, LATE, OK],
            id="and goes on",
        ),
        pytest.param((0, 1500, 3000, "10500", "10501"), [WAIT, OK, OK, WAIT, LATE], id="slow"),
        pytest.param(
            (0, 1, 2, 1500, 1501, "8990", "8992"),
            [WAIT, OK, OK, OK, OK, WAIT, LATE],
            id="paused before",
        ),
        pytest.param((0, "9000", "9001"), [WAIT, WAIT, LATE], id="after the first step"),
        pytest.param((0, 7200, "16000"), [WAIT, OK, WAIT], id="after the second step"),
        pytest.param((0, 5000, 5001, 5002), [WAIT, OK, OK, OK], id="slow start"),
        pytest.param(("0", "9e9"), [WAIT, WAIT], id="no step at all"),
        pytest.param((0, 1, 2, "-1000", "1803"), [WAIT, OK, OK, NONE, LATE], id="other tensors"),
        pytest.param((100, 50, 120, 121, "1922"), [WAIT, OK, OK, OK, LATE], id="times go back"),
        pytest.param((5, 5, 5, "5"), [WAIT, OK, OK, WAIT], id="all at once"),
    ],
)
def test_profile_recommended(moments: Any, expected: list[Outcome]) -> None:
    assert outcomes(rule(), history(*moments)) == expected


@pytest.mark.parametrize(
    ("moments", "parameters", "expected"),
    [
        pytest.param((0, "1800", "1801"), {}, [WAIT, WAIT, LATE], id="after the first step"),
        pytest.param((0, 1500, 3000, "4801"), {}, [WAIT, OK, OK, LATE], id="whatever its pace"),
        pytest.param((0, 50, 120, "181"), {"threshold": "60"}, [WAIT, OK, LATE, LATE], id="60 s"),
    ],
)
def test_profile_sagemaker(moments: Any, parameters: Any, expected: list[Outcome]) -> None:
    assert outcomes(rule("sagemaker", **parameters), history(*moments)) == expected


@pytest.mark.parametrize(
    ("threshold", "limit"), [(1800, "30 minutes"), (120, "2 minutes"), (100, "100 seconds")]
)
def test_says_for_how_long(threshold: int, limit: str) -> None:
    verdict = judged(rule(threshold=threshold), history(0, 1, 2, "2000"))[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (Reason.LATE, None, None)
    assert verdict.detail == f"no new step has been saved for 33 minutes; the limit is {limit}"
    assert dict(verdict.evidence) == {"seconds": 1998.0, "limit": float(threshold)}
