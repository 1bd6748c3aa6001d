"""The promises that every rule keeps. What is peculiar to a rule is in a test of its own.

Names, types, defaults, bounds and reads of each rule stand on its page in ``docs/rules``, which
``tests/unit/docs`` compares with the class.
"""

from __future__ import annotations

import copy
import inspect
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import compress
from operator import not_
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.model import Detail, Mode, Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import (
    PROFILES,
    BadRule,
    Read,
    Reads,
    Rule,
    Step,
    Tensor,
    build,
    get_rule,
    rule_names,
)
from tocsin.rules._parameters import RuleParameter, limits, parameters_of
from tocsin.tensors import detailed, summarize

from tests.unit.rules.judging import made, valued

NAMED = {  # parameters of rules that judge nothing unless tensors are named
    ("AllZero", "sagemaker"): {"tensor_regex": "."},
    ("SimilarAcrossRuns", "recommended"): {"other_trials": "other"},
    ("TensorVariance", "recommended"): {"tensor_regex": ".", "max_threshold": 1.0},
    ("WorseThanBaseline", "recommended"): {"runs": "main"},
    ("UnchangedTensor", "recommended"): {"tensor_regex": "."},
}


def every_rule() -> Iterator[Any]:
    """Each rule in both profiles, or in one if they do not differ."""
    for name in rule_names():
        seen: list[Rule] = []
        for profile in PROFILES:
            if made(name, profile) not in seen:
                seen.append(made(name, profile))
                rule = made(name, profile, **NAMED.get((name, profile), {}))
                yield pytest.param(rule, id=f"{name}-{profile}")


EVERY_RULE = list(every_rule())


# What it says


@pytest.mark.parametrize("name", rule_names())
def test_people_learn_what_it_is_and_what_to_do(name: str) -> None:
    rule = get_rule(name)
    text = inspect.getdoc(rule) or ""
    assert text.splitlines()[0].endswith(".")
    assert "\nExample: " in text
    assert rule.advice.endswith(".")
    assert rule.causes.endswith(".")
    for parameter in parameters_of(rule):
        assert parameter in text.partition("Parameters\n")[2].partition("Example")[0]
    assert set(rule.inhibits) <= set(rule_names()) - {name}


@pytest.mark.parametrize("name", rule_names())
def test_it_imports_what_a_custom_rule_imports(name: str) -> None:
    source = inspect.getsource(sys.modules[get_rule(name).__module__])
    assert "from tocsin.rules import " in source
    assert not re.search(r"tocsin\.rules\.(_rule|_registry|_parameters|[a-z]+\.[a-z])", source)


# Parameters

WITHOUT_BOUNDS = {
    ("CheckInputImages", "channel"),  # negative axes count from the last
    ("NLPSequenceRatio", "token_values"),
    *(
        ("SaturatedActivation", f"threshold_{kind}{end}")
        for kind in ("sigmoid", "tanh")
        for end in ("", "_min", "_max")
    ),
}


def numbers() -> Iterator[tuple[str, str, RuleParameter]]:
    for name in rule_names():
        for key, parameter in parameters_of(get_rule(name)).items():
            if any(word in str(parameter.type) for word in ("int", "float")):
                yield name, key, parameter


BOUNDED = [
    pytest.param(name, key, parameter, id=f"{name}-{key}")
    for name, key, parameter in numbers()
    if parameter.bounds is not None
]


def test_every_number_has_bounds() -> None:
    assert {(name, key) for name, key, it in numbers() if it.bounds is None} == WITHOUT_BOUNDS


def refused(parameter: RuleParameter) -> Iterator[float]:
    """Numbers right outside of the bounds, and those that are not finite."""
    bounds, whole = parameter.bounds, "int" in str(parameter.type)
    assert bounds is not None
    for bound in (bounds.gt, bounds.lt):
        if bound is not None:
            yield bound if whole else float(bound)
    for bound, way in ((bounds.ge, -1), (bounds.le, 1)):
        if bound is not None:
            yield bound + way if whole else math.nextafter(bound, way * math.inf)
    if not whole:
        yield from (math.nan, -math.inf)
        yield from () if bounds.extra else (math.inf,)


@pytest.mark.parametrize(("name", "key", "parameter"), BOUNDED)
def test_bounds(name: str, key: str, parameter: RuleParameter) -> None:
    """Holds on the wire, in JSON, and for a rule that is made in Python."""
    bounds = parameter.bounds
    assert bounds is not None
    words = limits(bounds)
    for number in refused(parameter):
        for value in (number, str(number)):
            with pytest.raises(BadRule) as caught:
                build(name, {key: [value] if parameter.is_list else value})
            assert str(caught.value).startswith(f"{name}: {key} is {number}, but must be ")
            assert str(caught.value).endswith(words)
        with pytest.raises(ValueError) as direct:
            get_rule(name)(**{key: (number,) if parameter.is_list else number})
        assert str(direct.value) == str(caught.value)
    for bound in (bounds.ge, bounds.le, math.inf if bounds.extra else None):
        if bound is not None:
            build(name, {key: [bound] if parameter.is_list else bound})
    for odd in ("many", None):
        if not (odd is None and parameter.is_optional):
            with pytest.raises(ValueError, match=f"^{name}: {key} is .*, but must be "):
                get_rule(name)(**{key: (odd,) if parameter.is_list else odd})


def wire(value: Any) -> str:
    """A parameter as Amazon's configurations have it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_parameters_on_the_wire_and_in_json(rule: Rule) -> None:
    name = type(rule).__name__
    values = {key: getattr(rule, key) for key in parameters_of(type(rule))}
    assert build(name, {key: wire(value) for key, value in values.items()})[0] == rule
    assert build(name, msgspec.json.decode(msgspec.json.encode(values)))[0] == rule


@pytest.mark.parametrize("name", rule_names())
def test_values_of_other_types_are_refused(name: str) -> None:
    for key in parameters_of(get_rule(name)):
        with pytest.raises(BadRule, match=f"^{name}: parameter {key}: "):
            build(name, {key: {"a": 1}})


NAMING = [
    pytest.param(name, key, id=f"{name}-{key}")
    for name in rule_names()
    for key in ("tensor_regex", "collection_names")
    if key in parameters_of(get_rule(name))
]


@pytest.mark.parametrize(("name", "parameter"), NAMING)
def test_named_tensors_take_the_place_of_roles(name: str, parameter: str) -> None:
    """The rest of the read stays as it is."""
    given = NAMED.get((name, "recommended"), {}) if name == "SimilarAcrossRuns" else {}
    before = made(name, **given).reads().tensors
    after = made(name, **given, **{parameter: "a,b"}).reads().tensors
    named = {key: read for key, read in after.items() if read != before.get(key)}
    assert named
    for key, read in named.items():
        found = {"tensor_regex": read.regex, "collection_names": read.collections}
        assert found == {**dict.fromkeys(found, ()), parameter: ("a", "b")}
        assert (read.roles, read.kinds) == ((), ())
        plain = replace(before.get(key, read), roles=(), kinds=(), regex=(), collections=())
        assert replace(read, regex=(), collections=()) == plain


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("AllZero", "sagemaker"),
        ("TensorVariance", "recommended"),
        ("UnchangedTensor", "recommended"),
        ("UnchangedTensor", "sagemaker"),
    ],
)
def test_rules_that_need_a_selection_say_so(name: str, profile: str) -> None:
    rule = made(name, profile)
    assert rule.reads().tensors == {}
    state, verdict = rule.evaluate({}, Step(0, Mode.TRAIN, 0, 0.0))
    assert (state, verdict.outcome) == ({}, Outcome.NOT_APPLICABLE)
    assert verdict.detail == "name collection_names or tensor_regex"


# Steps without anything to judge

WAITING = {  # that something was saved is enough for them
    "LearningRateTooLarge",
    "LearningRateTooSmall",
    "PoorWeightInitialization",
    "SimilarAcrossRuns",
    "StalledTrainingRule",
    "UpdateTooLarge",
    "UpdateTooSmall",
    "WeightUpdateRatio",
}
KEEPING_RECORDS = {
    "EvaluationUnchanged",
    "FewSamples",
    "LossGap",
    "Overfit",
    "Overtraining",
    "WorkersDisagree",
}  # empty ones, in their state


def step_of(rule: Rule, found: Mapping[str, tuple[Tensor, ...]], at: int = 0) -> Step:
    return Step(at, Mode.TRAIN, at, 1e9 + at, found, others={"other": found})


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_nothing_captured(rule: Rule) -> None:
    state, verdict = rule.evaluate({}, step_of(rule, dict.fromkeys(rule.reads().tensors, ())))
    assert (verdict.outcome, verdict.reason) == (Outcome.NOT_APPLICABLE, Reason.NO_TENSOR)
    assert verdict.detail
    assert state == {} or type(rule).__name__ in KEEPING_RECORDS


@pytest.mark.parametrize("content", ["unknown", "empty", "text"])
@pytest.mark.parametrize("rule", EVERY_RULE)
def test_tensors_without_numbers(rule: Rule, content: str) -> None:
    """They are no reason to fire, however often they are saved."""
    name, state = type(rule).__name__, {}
    values: dict[str, Any] = {"empty": np.zeros((0, 3)), "text": np.array(["a", "b"])}
    found = {}
    for key, read in rule.reads().tensors.items():
        seen = valued("w", values.get(content, 0.0), read=read)
        if content == "unknown":
            seen = Tensor("w", "worker_0", TensorSummary())
        role, kind = (read.roles or (None,))[0], (read.kinds or (None,))[0]
        found[key] = (replace(seen, role=role, kind=kind),)
    for at in range(3):
        state, verdict = rule.evaluate(state, step_of(rule, found, at))
        assert not verdict.violation
        if content == "unknown" and name not in WAITING:
            assert (verdict.outcome, verdict.reason) == (Outcome.NOT_APPLICABLE, Reason.NO_TENSOR)
            assert state == {} or name in KEEPING_RECORDS


# Histories

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
] + [np.array(["a", "0-1"])]
"""The content of tensors: every odd shape with every odd content, and text."""

TRAINING_ONLY = {
    "ClassImbalance",
    "FrozenParameters",
    "LearningRateSchedule",
    "LearningRateTooLarge",
    "LearningRateTooSmall",
    "LossDiverging",
    "LossOscillating",
    "LossSpike",
    "PoorWeightInitialization",
    "UpdateTooLarge",
    "UpdateTooSmall",
    "WeightUpdateRatio",
}


@cache
def summary_of(at: int, before: int | None, detail: Detail | None) -> TensorSummary:
    earlier = None if before is None else VALUES[before]
    summary = summarize(VALUES[at], earlier)
    if detail is not None:
        more = msgspec.structs.asdict(detailed(VALUES[at], detail))
        known = {key: value for key, value in more.items() if value is not None}
        summary = msgspec.structs.replace(summary, **known)
    return summary


def history(draw: Random, reads: Reads) -> list[Step]:
    """The steps of a run, in any order of modes, with gaps, duplicates and steps out of order,
    with workers missing, and with ticks for rules that want to know the time.
    """
    steps: list[Step] = []
    counts = dict.fromkeys(Mode, 0)
    number, time = draw.randint(0, 100), 1e9
    for _ in range(draw.randint(1, 12)):
        mode = draw.choice([Mode.TRAIN, Mode.TRAIN, Mode.EVAL, Mode.PREDICT, Mode.GLOBAL])
        time += draw.choice([1.0, 1.0, 10.0, 5000.0])
        if reads.ticks and steps and not draw.randrange(5):
            steps.append(Step(number, mode, counts[mode], time, tick=True))
            continue
        found = {name: selected(draw, read) for name, read in reads.tensors.items()}
        others = {
            run: {name: selected(draw, read) for name, read in reads.tensors.items()}
            for run in reads.runs
            if draw.randrange(2)
        }
        workers = sorted({tensor.worker for each in found.values() for tensor in each})
        times = {worker: time - draw.choice([0.0, 0.5, 900.0]) for worker in workers}
        steps.append(Step(number, mode, counts[mode], time, found, times=times, others=others))
        interval = draw.choice([1, 1, 2, 5, 50, 1000, 0, -3])
        number = max(0, number + interval)
        counts[mode] = max(0, counts[mode] + interval)
    return steps


def selected(draw: Random, read: Read) -> tuple[Tensor, ...]:
    """What a read may select: at most one tensor of a name and worker, in their order."""
    chosen = [drawn(draw, read, read.back) for _ in range(draw.randint(0, 4))]
    ordered = {(each.worker, each.name): each for each in chosen}
    return tuple(each for _, each in sorted(ordered.items()))


def drawn(draw: Random, read: Read, back: int = 0) -> Tensor:
    at, before = draw.randrange(len(VALUES)), draw.choice([None, draw.randrange(len(VALUES) - 1)])
    value, summary = VALUES[at], summary_of(at, before, read.detail)
    return Tensor(
        name=draw.choice(NAMES),
        worker=draw.choice(["worker_0", "worker_1"]),
        summary=draw.choice([summary, summary, TensorSummary()]),
        shape=value.shape,
        dtype=str(value.dtype),
        role=draw.choice(read.roles or (None,)),
        kind=draw.choice(read.kinds or (None,)),
        value=value if read.values and draw.randrange(6) else None,
        previous=tuple(drawn(draw, read) for _ in range(draw.randint(0, back))),
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
            assert isinstance(next(iter(verdict.evidence.values())), int | float)
        seen.append(msgspec.to_builtins((after, verdict)))
        state = msgspec.json.decode(msgspec.json.encode(after)) if stored else after
    return [msgspec.json.encode(each) for each in seen]


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_pure_and_without_look_ahead(rule: Rule) -> None:
    """In one go, one step at a time with the state stored in between, or only a part of it."""
    for seed in range(60):
        draw = Random(seed)
        steps = history(draw, rule.reads())
        whole = judged(rule, steps)
        assert judged(rule, steps, stored=True) == whole
        part = draw.randint(0, len(steps))
        assert judged(rule, steps[:part]) == whole[:part]
        if type(rule).__name__ in TRAINING_ONLY:
            trained = [step.mode in (Mode.TRAIN, Mode.GLOBAL) for step in steps]
            assert judged(rule, compress(steps, trained)) == list(compress(whole, trained))
            others = [msgspec.json.decode(each) for each in compress(whole, map(not_, trained))]
            assert {verdict["outcome"] for _, verdict in others} <= {"not_applicable"}


# The size of the state

SAVES = [
    (value, summarize(value, value * np.float32(0.9)))
    for at in range(300)
    for value in [np.float32([[1 / (at + 3), at % 7], [0.5, -1.0]])]
]
MODES = (Mode.TRAIN, Mode.TRAIN, Mode.EVAL, Mode.PREDICT, Mode.GLOBAL)


def longest(rule: Rule) -> Rule:
    """The rule with the largest windows that it allows."""
    known = parameters_of(type(rule)).items()
    most = {key: it.bounds.le for key, it in known if it.type is int and it.bounds and it.bounds.le}
    return replace(rule, **most)


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


@pytest.mark.parametrize(
    ("number", "steps", "name"),
    [
        pytest.param(1, 2000, "block{n}.layer.weight", id="a long run"),
        pytest.param(100, 40, "block{n}.layer.weight", id="a large model"),
        pytest.param(9, 60, "a_name_that_is_very_long_{n}" * 4, id="long names"),
        pytest.param(9, 60, "loss_of_{at}_{n}", id="ever new names"),
    ],
)
@pytest.mark.parametrize("rule", EVERY_RULE)
def test_the_state_stays_small(rule: Rule, number: int, steps: int, name: str) -> None:
    """8 kB a rule and 64 bytes a tensor, with the largest windows that a rule allows."""
    rule = longest(rule)
    reads = rule.reads().tensors
    saves = {key: [shown(read, *save) for save in SAVES] for key, read in reads.items()}
    state: Any = {}
    tensors = number * steps if "{at}" in name else number
    for at in range(steps):
        names = [name.format(n=n, at=at) for n in range(number)]
        found = {
            key: tuple(replace(shows[at % len(shows)], name=each) for each in names)
            for key, shows in saves.items()
        }
        now = 1e9 + at
        step = Step(at, MODES[at % 5], at, now, found, times={"worker_0": now})
        state, _ = rule.evaluate(state, step)
        if at % 499 == 0 or at == steps - 1:
            assert len(msgspec.json.encode(state)) <= 8192 + 64 * tensors
