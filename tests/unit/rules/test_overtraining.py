from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import Rule, Step

from tests.unit.rules.judging import fired, first, judged, made, violations

NAN = float("nan")
rule = partial(made, "Overtraining")
MakeStep = Callable[..., Step]

FLAT = (0.5,) * 14
TURNS = (2.0, 1.0, 0.6, 0.6, 1.0, *[1.2] * 9)
LEVELS_OFF = (2.0, 1.0, 0.6, 0.5, 0.45, 0.42, 0.41, *[0.4] * 7)
NOISE = np.random.default_rng(5).standard_normal(14)


@pytest.fixture
def run(make_step: MakeStep) -> Callable[..., list[Step]]:
    """A training step, an evaluation of one step, and so on; at the end a training step."""

    def make(train: Sequence[Any], validation: Sequence[Any]) -> list[Step]:
        steps = []
        for at, (trained, evaluated) in enumerate(zip(train, validation, strict=True)):
            steps.append(make_step("losses", 2 * at, {"loss": trained}, mode_step=at))
            found = {"loss": evaluated}
            steps.append(make_step("losses", 2 * at + 1, found, mode=Mode.EVAL, mode_step=at))
        end = len(train)
        return [*steps, make_step("losses", 2 * end, {"loss": train[-1]}, mode_step=end)]

    return make


def ends(rule: Rule, steps: list[Step]) -> list[Verdict]:
    """The verdicts at training steps but the first: there an evaluation ends."""
    return judged(rule, steps)[2::2]


def first_end(rule: Rule, steps: list[Step]) -> int | None:
    """The number of evaluations after which it fires."""
    at = first(ends(rule, steps))
    return None if at is None else at + 1


QUIET = {
    "levels off": (FLAT, LEVELS_OFF),
    "levels off with noise": (FLAT, tuple(0.4 + 0.05 * NOISE)),
    "levels off, large noise": (FLAT, tuple(LEVELS_OFF + 0.2 * np.abs(NOISE))),
    "rises a little": (FLAT, tuple(np.add(LEVELS_OFF, [0] * 7 + [0.1] * 7))),
    "diverges": ((2.0, 1.0, 0.6, 0.6, 1.0, *[1.2] * 9), TURNS),
    "a restart of the learning rate": ((0.5, 0.4, 0.3, 0.3, *[0.7] * 10), TURNS),
    "a hump": (FLAT, (2.0, 1.0, 0.6, 0.6, 1.2, 1.2, 1.2, *[0.6] * 7)),
    "never improved": (FLAT, tuple(np.linspace(1, 3, 14))),
    "hardly improved": (FLAT, (1.1, *[1.0] * 5, *[1.2] * 8)),
    "too short": (FLAT[:8], TURNS[:8]),
    "two odd evaluations": (FLAT, (*LEVELS_OFF[:8], 9, 0.4, 9, 0.4, 0.4, 0.4)),
    "NaN": (FLAT, (*LEVELS_OFF[:5], *[NAN] * 9)),
    "beyond reckoning": (FLAT, tuple(1e200 * value for value in TURNS)),
    "constant": (FLAT, FLAT),
    "zero": ([0] * 14, [0] * 14),
}


@pytest.mark.parametrize(("train", "validation"), QUIET.values(), ids=QUIET)
def test_quiet(run: Any, train: Any, validation: Any) -> None:
    assert first_end(rule(), run(train, validation)) is None


FIRES = {
    "turns": (FLAT, TURNS, {}, 10),
    "training unknown": ([TensorSummary()] * 14, TURNS, {}, 10),
    "training falls": (np.linspace(1, 0, 14), TURNS, {}, 10),
    "training is NaN": ([NAN] * 14, TURNS, {}, 10),
    "larger numbers": (FLAT, tuple(1000 * value for value in TURNS), {}, 10),
    "integers": (FLAT, (40, 20, 12, 12, 20, *[24] * 9), {}, 10),
    "less patience": (FLAT, TURNS, {"patience_validation": "1"}, 6),
    "delta": (FLAT, TURNS, {"delta": "0.5"}, 11),
    "least rise": (FLAT, TURNS, {"least_rise": "0.4"}, 11),
    "to the double is enough": (FLAT, (50, 10, 1, 1, 1, *[2.5] * 9), {}, 11),
}


@pytest.mark.parametrize(("train", "validation", "parameters", "at"), FIRES.values(), ids=FIRES)
def test_fires(run: Any, train: Any, validation: Any, parameters: Any, at: int) -> None:
    verdicts = ends(rule(**parameters), run(train, validation))
    assert fired(verdicts) == list(range(at - 1, len(verdicts)))


FALLS = tuple(np.linspace(3, 1, 14))


@pytest.mark.parametrize(
    ("constant", "fires"),
    [(1.3, True), (20.0, False), (NAN, True)],
    ids=["half is lost", "a twentieth of what was won is lost", "unknown"],
)
def test_beside_a_constant_guess(run: Any, make_tensor: Any, constant: float, fires: bool) -> None:
    """The same course is judged by what it means."""
    steps = []
    for step in run(FLAT, TURNS):
        (loss,) = step.tensors["losses"]
        rows = np.array([[loss.summary.mean, 30.0, constant, 64.0]] * 4)
        skill = replace(make_tensor("loss/skill", rows), value=rows)
        steps.append(replace(step, tensors={**step.tensors, "skills": (skill,)}))
    assert (first_end(rule(), steps) is not None) is fires


@pytest.mark.parametrize(
    ("train", "validation", "parameters", "at"),
    [
        pytest.param(FALLS, FALLS, {}, None, id="both improve"),
        pytest.param([1.0] * 14, FALLS, {}, 5, id="training stalls"),
        pytest.param(FALLS, [1.0] * 14, {}, 11, id="validation stalls"),
        pytest.param(np.linspace(1, 0.98, 14), FALLS, {}, 5, id="by less than delta"),
        pytest.param(np.linspace(1, 0.9, 14), FALLS, {"delta": "0"}, None, id="any is enough"),
        pytest.param([1.0] * 14, FALLS, {"patience_train": "none"}, None, id="training may stall"),
        pytest.param([1.0] * 14, FALLS, {"patience_train": "8"}, 8, id="patience of training"),
        pytest.param(FALLS, [1.0] * 14, {"patience_validation": "3"}, 4, id="of validation"),
        pytest.param([NAN] * 14, [NAN] * 14, {}, None, id="NaN"),
    ],
)
def test_profile_sagemaker(
    run: Any, train: Any, validation: Any, parameters: Any, at: int | None
) -> None:
    assert first_end(rule("sagemaker", **parameters), run(train, validation)) == at


def test_says_what_has_happened(run: Any) -> None:
    verdict = ends(rule(), run(FLAT, TURNS))[9]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (
        Reason.INCREASING,
        "loss",
        "worker_0",
    )
    assert verdict.detail == (
        "loss is 1.2; its best was 0.6, and the last 5 evaluations were clearly worse"
    )
    assert dict(verdict.evidence) == {"now": 1.2, "best": 0.6, "stalled": 5}
    stalled = ends(rule("sagemaker"), run([1.0] * 14, FALLS))[4]
    assert stalled.reason is Reason.NOT_DECREASING
    assert stalled.detail == "loss is 1; its best was 1, not improved by 0.01 in 5 saves since"


def test_metrics_that_should_rise(make_step: MakeStep) -> None:
    steps = [
        make_step("losses", at, {"validation-auc": 1 - value / 4}, mode=Mode.GLOBAL)
        for at, value in enumerate(TURNS)
    ]
    found, *_ = violations(rule(tensor_regex="auc"), steps).values()
    assert found.evidence["now"] == pytest.approx(0.7)
    assert found.evidence["best"] == pytest.approx(0.85)


@pytest.mark.parametrize(
    ("profile", "train", "validation", "expected"),
    [
        ("recommended", FLAT, LEVELS_OFF, [Outcome.UNDECIDED] * 4 + [Outcome.HEALTHY] * 10),
        ("recommended", FLAT, [TensorSummary()] * 14, [Outcome.NOT_APPLICABLE] * 14),
        ("sagemaker", FALLS, [TensorSummary()] * 14, [Outcome.HEALTHY] * 13 + [Outcome.UNDECIDED]),
        ("sagemaker", [[]] * 14, [[]] * 14, [Outcome.NOT_APPLICABLE] * 14),
    ],
)
def test_outcomes(run: Any, profile: str, train: Any, validation: Any, expected: Any) -> None:
    verdicts = ends(rule(profile), run(train, validation))
    assert [verdict.outcome for verdict in verdicts] == expected
