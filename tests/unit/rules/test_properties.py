"""What holds for every rule there is."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tocsin.model import Detail, Mode, Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import PROFILES, Read, Reads, Rule, Step, Tensor, build, get_rule, rule_names
from tocsin.tensors import detailed, summarize

EVERY_RULE = [
    pytest.param(build(name, {}, profile)[0], id=f"{name}-{profile}")
    for name in rule_names()
    for profile in PROFILES
]

NAMES = (
    "loss",
    "accuracy",
    "train-rmse",
    "validation-rmse",
    "w",
    "gradient/w",
    "weight/f0",
    "tanh",
)
NUMBERS = (0.0, 1.0, -2.5, 1e-9, 3e38, np.inf, -np.inf, np.nan, 0.5, 7.0)
SHAPES = ((), (1,), (0,), (3,), (2, 3), (4, 2), (2, 1, 2, 2))
VALUES = [
    make(shape)
    for shape in SHAPES
    for make in (
        lambda shape: np.resize(np.float32(NUMBERS), shape),
        lambda shape: np.full(shape, np.nan),
        lambda shape: np.full(shape, 0.5, np.float32),
        lambda shape: np.zeros(shape),
        lambda shape: np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3,
        lambda shape: np.random.default_rng(0).normal(size=shape),
        lambda shape: np.random.default_rng(1).normal(size=shape) * 1e4,
    )
]
"""What tensors hold: every odd shape with every odd content."""


@cache
def summary_of(at: int, before: int | None, detail: Detail | None) -> TensorSummary:
    summary = summarize(VALUES[at], None if before is None else VALUES[before])
    if detail is not None:
        more = msgspec.structs.asdict(detailed(VALUES[at], detail))
        known = {key: value for key, value in more.items() if value is not None}
        summary = msgspec.structs.replace(summary, **known)
    return summary


@st.composite
def histories(draw: st.DrawFn, reads: Reads) -> list[Step]:
    """A run's steps, at any interval and in any order of modes, with tensors in every read, and
    ticks for who wants to know the time.
    """
    steps: list[Step] = []
    counts = dict.fromkeys(Mode, 0)
    number = draw(st.integers(0, 100))
    time = 1e9
    for _ in range(draw(st.integers(1, 12))):
        mode = draw(st.sampled_from([Mode.TRAIN, Mode.TRAIN, Mode.EVAL, Mode.PREDICT, Mode.GLOBAL]))
        time += draw(st.sampled_from([1.0, 1.0, 10.0, 5000.0]))
        if reads.ticks and steps and draw(st.integers(0, 4)) == 0:
            steps.append(Step(number, mode, counts[mode], time, tick=True))
            continue
        found = {name: draw(selected(read)) for name, read in reads.tensors.items()}
        others = {
            run: {name: draw(selected(read)) for name, read in reads.tensors.items()}
            for run in reads.runs
            if draw(st.booleans())
        }
        workers = {tensor.worker for each in found.values() for tensor in each}
        times = {worker: time - draw(st.sampled_from([0.0, 0.5, 900.0])) for worker in workers}
        steps.append(Step(number, mode, counts[mode], time, found, times=times, others=others))
        interval = draw(st.sampled_from([1, 1, 2, 5, 50, 1000]))
        number += interval
        counts[mode] += interval
    return steps


@st.composite
def selected(draw: st.DrawFn, read: Read) -> tuple[Tensor, ...]:
    """What a read may select: at most one tensor of a name and worker, in their order."""
    chosen = draw(st.lists(tensors(read), max_size=4))
    return tuple(
        {
            (each.worker, each.name): each
            for each in sorted(chosen, key=lambda each: (each.worker, each.name))
        }.values()
    )


@st.composite
def tensors(draw: st.DrawFn, read: Read, past: int | None = None) -> Tensor:
    at = draw(st.integers(0, len(VALUES) - 1))
    before = draw(st.none() | st.integers(0, len(VALUES) - 1))
    value, summary = VALUES[at], summary_of(at, before, read.detail)
    back = draw(st.integers(0, read.back)) if past is None else past
    return Tensor(
        name=draw(st.sampled_from(NAMES)),
        worker=draw(st.sampled_from(["worker_0", "worker_1"])),
        summary=draw(st.sampled_from([summary, summary, TensorSummary()])),
        shape=value.shape,
        dtype=str(value.dtype),
        role=draw(st.sampled_from(read.roles)) if read.roles else None,
        kind=draw(st.sampled_from(read.kinds)) if read.kinds else None,
        value=value if read.values and draw(st.integers(0, 5)) else None,
        previous=tuple(draw(tensors(read, 0)) for _ in range(back)),
    )


def judged(rule: Rule, steps: Iterable[Step], *, stored: bool = False) -> list[Any]:
    """States and verdicts as JSON; with ``stored`` the state goes through JSON at every step.

    A violation says where and why; an evaluation that is over may be of an earlier step.
    """
    state: Any = {}
    seen = []
    shown: set[tuple[str | None, str | None]] = set()
    for step in steps:
        shown |= {(each.name, each.worker) for read in step.tensors.values() for each in read}
        before = copy.deepcopy(state)
        after, verdict = rule.evaluate(state, step)
        assert state == before, "the state passed in was changed"
        assert isinstance(verdict, Verdict)
        if verdict.outcome is Outcome.VIOLATION:
            of_time = rule.reads().ticks or verdict.reason is Reason.LATE
            assert of_time or (verdict.tensor, verdict.worker) in shown
            assert verdict.detail
            assert verdict.evidence
        seen.append(msgspec.to_builtins((after, verdict)))
        state = msgspec.json.decode(msgspec.json.encode(after)) if stored else after
    return [msgspec.json.encode(each) for each in seen]


@pytest.mark.parametrize("rule", EVERY_RULE)
@settings(max_examples=20)
@given(data=st.data())
def test_pure_and_without_look_ahead(rule: Rule, data: st.DataObject) -> None:
    """In one go, one step at a time with the state stored in between, or only a part of it."""
    steps = data.draw(histories(rule.reads()))
    whole = judged(rule, steps)
    assert judged(rule, steps, stored=True) == whole
    part = data.draw(st.integers(0, len(steps)))
    assert judged(rule, steps[:part]) == whole[:part]


SAVES = [
    (value, summarize(value, value * np.float32(0.9)))
    for at in range(300)
    for value in [np.float32([[1 / (at + 3), at % 7], [0.5, -1.0]])]
]


@pytest.mark.parametrize(("number", "steps"), [(1, 10_000), (200, 60)])
@pytest.mark.parametrize("rule", EVERY_RULE)
def test_the_state_stays_small(rule: Rule, number: int, steps: int) -> None:
    """8 kB a rule and 64 bytes a tensor: over 10,000 steps of one, fewer of many."""
    reads = rule.reads().tensors
    saves = {name: [shown(read, *save) for save in SAVES] for name, read in reads.items()}
    names = [f"block{n}.layer.weight" for n in range(number)]
    state: Any = {}
    for at in range(steps):
        found = {
            name: tuple(replace(shows[at % len(shows)], name=each) for each in names)
            for name, shows in saves.items()
        }
        mode = Mode.EVAL if at % 5 == 4 else Mode.TRAIN
        now = 1e9 + at
        step = Step(at, mode, at, now, found, times={"worker_0": now})
        state, _ = rule.evaluate(state, step)
        if at % 1999 == 0 or at == steps - 1:
            assert len(msgspec.json.encode(state)) <= 8192 + 64 * number


def shown(read: Read, value: NDArray[Any], summary: TensorSummary) -> Tensor:
    """A value as the read asks for it."""
    if read.detail is not None:
        more = msgspec.structs.asdict(detailed(value, read.detail))
        summary = msgspec.structs.replace(
            summary, **{k: v for k, v in more.items() if v is not None}
        )
    role = read.roles[0] if read.roles else None
    kind = read.kinds[0] if read.kinds else None
    seen = Tensor("", "worker_0", summary, value.shape, "float32", role, kind, value)
    return replace(seen, previous=(seen,) * read.back)


@pytest.mark.parametrize("name", rule_names())
def test_people_are_told_what_it_is_and_what_to_do(name: str) -> None:
    rule = get_rule(name)
    first = (rule.__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert rule.advice.endswith(".")
    assert rule.causes.endswith(".")
