"""What holds for every rule there is."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tocsin.model import Mode, Outcome, TensorSummary, Verdict
from tocsin.rules import PROFILES, Rule, Step, Tensor, build, get_rule, rule_names
from tocsin.tensors import summarize

EVERY_RULE = [
    pytest.param(build(name, {}, profile)[0], id=f"{name}-{profile}")
    for name in rule_names()
    for profile in PROFILES
]
SHORT = build("LossNotDecreasing", {"num_steps": 3, "smooth": 2, "settled_percent": None})[0]

floats = st.floats(width=32) | st.sampled_from([1.0, 0.5, 0.0, 1e-9])
values = (st.lists(floats, max_size=3) | floats).map(np.asarray)


@st.composite
def histories(draw: st.DrawFn, reads: Iterable[str]) -> list[Step]:
    """A run's steps, at any interval and in any order of modes, with tensors in every read."""
    steps = []
    counts = dict.fromkeys(Mode, 0)
    number = draw(st.integers(0, 100))
    for _ in range(draw(st.integers(1, 12))):
        mode = draw(st.sampled_from(Mode))
        found = {read: tuple(draw(st.lists(tensors(), max_size=3))) for read in reads}
        steps.append(Step(number, mode, counts[mode], 1e9 + number, found))
        interval = draw(st.sampled_from([1, 1, 2, 5, 50, 1000]))
        number += interval
        counts[mode] += interval
    return steps


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    value = draw(values)
    return Tensor(
        name=draw(st.sampled_from(["a", "b"])),
        worker=draw(st.sampled_from(["worker_0", "worker_1"])),
        summary=draw(st.sampled_from([summarize(value), TensorSummary()])),
        shape=value.shape,
        dtype=str(value.dtype),
        value=value,
    )


def judged(rule: Rule, steps: Iterable[Step], *, stored: bool = False) -> list[Any]:
    """States and verdicts as JSON; with ``stored`` the state goes through JSON at every step."""
    state: Any = {}
    seen = []
    for step in steps:
        before = copy.deepcopy(state)
        after, verdict = rule.evaluate(state, step)
        assert state == before, "the state passed in was changed"
        assert isinstance(verdict, Verdict)
        seen.append(msgspec.to_builtins((after, verdict)))
        state = msgspec.json.decode(msgspec.json.encode(after)) if stored else after
    return [msgspec.json.encode(each) for each in seen]


@pytest.mark.parametrize("rule", [*EVERY_RULE, pytest.param(SHORT, id="LossNotDecreasing-short")])
@settings(max_examples=50)
@given(data=st.data())
def test_pure_and_without_look_ahead(rule: Rule, data: st.DataObject) -> None:
    """In one go, one step at a time with the state stored in between, or only a part of it."""
    steps = data.draw(histories(rule.reads().tensors))
    whole = judged(rule, steps)
    assert judged(rule, steps, stored=True) == whole
    part = data.draw(st.integers(0, len(steps)))
    assert judged(rule, steps[:part]) == whole[:part]


@pytest.mark.parametrize("rule", EVERY_RULE)
@settings(max_examples=20)
@given(data=st.data())
def test_a_violation_says_where_and_why(rule: Rule, data: st.DataObject) -> None:
    for step in data.draw(histories(rule.reads().tensors)):
        _, verdict = rule.evaluate({}, step)
        if verdict.outcome is Outcome.VIOLATION:
            found = {
                (tensor.name, tensor.worker) for each in step.tensors.values() for tensor in each
            }
            assert (verdict.tensor, verdict.worker) in found
            assert verdict.detail
            assert verdict.evidence


@pytest.mark.parametrize("interval", [1, 10, 137])
@pytest.mark.parametrize(
    "rule",
    [
        *EVERY_RULE,
        pytest.param(
            build("LossNotDecreasing", {"num_steps": 10**6})[0], id="LossNotDecreasing-far"
        ),
    ],
)
def test_the_state_stays_small(rule: Rule, interval: int) -> None:
    state: Any = {}
    largest = 0
    for at in range(10_000):
        summary = TensorSummary(
            size=1, nan=0, posinf=0, neginf=0, mean=1 / (at + 3), abs_mean=1 / (at + 3)
        )
        found = {read: (Tensor("loss", "worker_0", summary),) for read in rule.reads().tensors}
        state, _ = rule.evaluate(state, Step(at * interval, Mode.TRAIN, at * interval, 0.0, found))
        if at % 97 == 0 or at == 9999:
            largest = max(largest, len(msgspec.json.encode(state)))
    assert largest < 8192


@pytest.mark.parametrize("name", rule_names())
def test_people_are_told_what_it_is_and_what_to_do(name: str) -> None:
    rule = get_rule(name)
    first = (rule.__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert rule.advice.endswith(".")
