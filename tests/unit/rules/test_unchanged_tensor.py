from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tocsin.model import Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import Step, Tensor
from tocsin.rules.amazon.unchanged_tensor import UnchangedTensor

from tests.unit.rules.judging import fired, made

NAN = float("nan")

MakeStep = Callable[..., Step]


def valued(value: Any, name: str = "a", past: Sequence[Tensor] = ()) -> Tensor:
    array = np.asarray(value)
    return Tensor(name, "worker_0", TensorSummary(), value=array, previous=tuple(past))


@pytest.fixture
def judged(make_step: MakeStep) -> Callable[..., list[Verdict]]:
    """The verdicts over a tensor's values, with as much of the past as the rule asks for."""

    def judge(values: Sequence[Any], **parameters: Any) -> list[Verdict]:
        rule = made("UnchangedTensor", tensor_regex="a", **parameters)
        back = rule.reads().tensors["tensors"].back
        saved: list[Tensor] = []
        verdicts = []
        for at, value in enumerate(values):
            tensor = valued(value, past=saved[::-1][:back])
            saved.append(replace(tensor, previous=()))
            _, verdict = rule.evaluate({}, make_step("tensors", 10 * at, [tensor]))
            verdicts.append(verdict)
        return verdicts

    return judge


@pytest.mark.parametrize(
    ("values", "parameters", "expected"),
    [
        pytest.param([[1.0]] * 4, {}, [2, 3], id="as documented: 0, 1, 2"),
        pytest.param([[1.0]], {}, [], id="a single value never"),
        pytest.param([[1.0]] * 2, {}, [], id="two of three"),
        pytest.param([[1.0]] * 2, {"num_steps": "2"}, [1], id="two of two"),
        pytest.param([[1.0], [2.0], [2.0], [2.0], [3.0]], {}, [3], id="changes before and after"),
        pytest.param([[1.0], [2.0], [1.0], [2.0]], {}, [], id="to and fro"),
        pytest.param([[1.0, 2.0], [1.0, 2.1], [1.0, 2.0]], {}, [], id="one element of two"),
        pytest.param([[1.0], [1.000009], [1.0]], {}, [2], id="within rtol"),
        pytest.param([[1.0], [1.00002], [1.0]], {}, [], id="beyond rtol"),
        pytest.param([[1.0], [1.00002], [1.0]], {"rtol": "0.001"}, [2], id="a wider rtol"),
        pytest.param([[0.0], [1e-9], [0.0]], {}, [2], id="within atol"),
        pytest.param([[0.0], [1e-9], [0.0]], {"atol": "0"}, [], id="no atol"),
        pytest.param([[NAN]] * 3, {}, [], id="NaN is not equal"),
        pytest.param([[NAN]] * 3, {"equal_nan": "True"}, [2], id="unless said so"),
        pytest.param([np.float32(2)] * 3, {}, [2], id="0-d"),
        pytest.param([np.array([1, 2], np.int8)] * 3, {}, [2], id="integers"),
        pytest.param([np.array([True])] * 3, {}, [2], id="bool"),
        pytest.param([np.array(["x"])] * 3, {}, [2], id="strings"),
        pytest.param([np.array(["x"]), [1.0], np.array(["x"])], {}, [], id="another type"),
        pytest.param([[1.0], [1.0, 1.0], [1.0]], {}, [], id="another shape"),
        pytest.param([np.zeros((0, 2))] * 4, {}, [], id="empty"),
    ],
)
def test_histories(
    judged: Callable[..., list[Verdict]],
    values: list[Any],
    parameters: dict[str, str],
    expected: list[int],
) -> None:
    assert fired(judged(values, **parameters)) == expected


def test_undecided_before_there_are_enough(judged: Callable[..., list[Verdict]]) -> None:
    outcomes = [verdict.outcome for verdict in judged([[1.0], [2.0], [3.0]])]
    assert outcomes == [Outcome.UNDECIDED, Outcome.UNDECIDED, Outcome.HEALTHY]


def test_starting_late_with_older_values_at_hand(make_step: MakeStep) -> None:
    new = valued([7.0], "b")  # no reason to wait for
    step = make_step("tensors", 2, [new, valued([1.0], past=[valued([1.0])] * 2)])
    _, verdict = UnchangedTensor(tensor_regex=(".",)).evaluate({}, step)
    assert (verdict.tensor, verdict.worker) == ("a", "worker_0")
    assert (verdict.reason, verdict.detail) == (Reason.CONSTANT, "a has not changed in 3 saves")
    assert dict(verdict.evidence) == {"saves": 3}


def test_values_that_could_not_be_read_are_not_equal(make_step: MakeStep) -> None:
    lost = Tensor("a", "worker_0", TensorSummary())
    tensor = valued([1.0], past=[lost, lost])
    rule = UnchangedTensor(tensor_regex=("a",))
    assert rule.evaluate({}, make_step("tensors", 9, [tensor]))[1].outcome is Outcome.HEALTHY
    assert rule.evaluate({}, make_step("tensors", 9, [lost]))[1].outcome is Outcome.NOT_APPLICABLE
