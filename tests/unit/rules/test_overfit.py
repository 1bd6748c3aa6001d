from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import Rule, Step

from tests.unit.rules.judging import fired, first, judged, made, violations

NAN = float("nan")
rule = partial(made, "Overfit")
MakeStep = Callable[..., Step]

FALLS = tuple(0.8**at for at in range(12))  # training loss
TURNS = (1.0, 0.7, 0.5, 0.45, 0.5, 0.62, 0.74, 0.86, 0.98, 1.1, 1.22, 1.34)
LEVELS_OFF = (1.0, 0.7, 0.55, 0.5, 0.49, 0.5, 0.5, 0.49, 0.5, 0.49, 0.5, 0.5)
NOISE = np.random.default_rng(3)


@pytest.fixture
def run(make_step: MakeStep) -> Callable[..., list[Step]]:
    """Two training steps, an evaluation of one step, and so on; at the end a training step."""

    def make(train: Sequence[Any], validation: Sequence[Any]) -> list[Step]:
        losses = [
            (mode, value)
            for trained, evaluated in zip(train, validation, strict=True)
            for mode, value in (
                (Mode.TRAIN, trained),
                (Mode.TRAIN, trained),
                (Mode.EVAL, evaluated),
            )
        ]
        counts = dict.fromkeys(Mode, 0)
        steps = []
        for number, (mode, value) in enumerate([*losses, (Mode.TRAIN, train[-1])]):
            steps.append(
                make_step("losses", number, {"loss": value}, mode=mode, mode_step=counts[mode])
            )
            counts[mode] += 1
        return steps

    return make


def ends(rule: Rule, steps: list[Step]) -> list[Verdict]:
    """The verdicts at the ends of evaluations: each third step, of training."""
    verdicts = judged(rule, steps)
    last = [at for at in range(1, len(steps)) if at % 3 == 0]
    assert set(fired(verdicts)) <= set(last)
    return [verdicts[at] for at in last]


def first_end(rule: Rule, steps: list[Step]) -> int | None:
    """The number of evaluations after which it fires."""
    at = first(ends(rule, steps))
    return None if at is None else at + 1


def scaled(values: Iterable[float], by: float) -> tuple[float, ...]:
    return tuple(by * value for value in values)


@pytest.mark.parametrize(
    ("constant", "expected"),
    [(1.3, 10), (20.0, None), (NAN, 9)],
    ids=["all is lost", "a twentieth of what was won is lost", "unknown"],
)
def test_beside_a_constant_guess(
    run: Any, make_tensor: Any, constant: float, expected: int | None
) -> None:
    """The same course is judged by what it means."""
    steps = []
    for step in run(FALLS, TURNS):
        (loss,) = step.tensors["losses"]
        rows = np.array([[loss.summary.mean, 30.0, constant, 64.0]] * 4)
        skill = replace(make_tensor("loss/skill", rows), value=rows)
        steps.append(replace(step, tensors={**step.tensors, "skills": (skill,)}))
    assert first_end(rule(), steps) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [(1.3, 11), (20.0, None)],  # three saves come before
    ids=["most is lost", "a twentieth of what was won is lost"],
)
def test_beside_the_untrained_model(
    run: Any, make_step: MakeStep, start: float, expected: int | None
) -> None:
    """Where no guess is known, the first losses of training stand for it."""
    begun = [make_step("losses", at, {"loss": start}) for at in range(3)]
    steps = [replace(s, step=s.step + 3, mode_step=s.mode_step + 3) for s in run(FALLS, TURNS)]
    assert first_end(rule(), [*begun, *steps]) == expected


QUIET = {
    "levels off far above training": (FALLS, LEVELS_OFF),
    "falls with training": (FALLS, FALLS),
    "both rise: divergence": (TURNS, TURNS),
    "both rise: a restart of the learning rate": (
        (*FALLS[:6], 0.9, 0.8, 0.7, 0.6, 0.5, 0.4),
        (*FALLS[:6], 1.1, 1.0, 0.9, 0.8, 0.7, 0.6),
    ),
    "training has stopped to fall": ((1.0, 0.5, *[0.4] * 10), TURNS),
    "training loss higher: dropout": (scaled(FALLS, 30), TURNS),
    "training rises again": ((*FALLS[:4], *[0.9] * 8), TURNS),
    "noise": (FALLS, tuple(0.5 + 0.1 * NOISE.standard_normal(12))),
    "one odd evaluation": (FALLS, (*LEVELS_OFF[:8], 5.0, *LEVELS_OFF[9:])),
    "two odd evaluations": (FALLS, (*LEVELS_OFF[:6], 5.0, *LEVELS_OFF[7:9], 5.0, *LEVELS_OFF[10:])),
    "unsteady at first": (FALLS, (5, 0.9, 3, 0.8, 2.5, 0.7, 2, 0.6, 0.6, 0.6, 0.7, 0.6)),
    "too few evaluations": (FALLS[:4], (0.2, 0.4, 0.8, 1.6)),
    "rises by little": (FALLS, (*LEVELS_OFF[:6], 0.51, 0.52, 0.53, 0.53, 0.54, 0.54)),
    "rises by nothing worth": (scaled(FALLS, 1e-6), (1.0, 0.1, 0.01, 1e-5, 2e-6, *[3e-6] * 7)),
    "hardly fell, rises by a tenth": (FALLS, (0.53, 0.5, *np.linspace(0.5, 0.55, 10))),
    "NaN": (FALLS, (*LEVELS_OFF[:6], *[NAN] * 6)),
    "training is NaN": ([NAN] * 12, TURNS),
    "empty": (FALLS, [[]] * 12),
    "unknown": (FALLS, [TensorSummary()] * 12),
    "zeros": ([0.0] * 12, [0.0] * 12),
    "huge": (scaled(FALLS, 1e300), scaled(TURNS, 1e300)),
}


@pytest.mark.parametrize(("train", "validation"), QUIET.values(), ids=QUIET)
def test_quiet(run: Any, train: Any, validation: Any) -> None:
    assert first_end(rule(), run(train, validation)) is None


FIRES = {
    "turns": (FALLS, TURNS, {}, 9),
    "turns, large numbers": (scaled(FALLS, 1e6), scaled(TURNS, 1e6), {}, 9),
    "turns, small numbers": (scaled(FALLS, 1e-6), scaled(TURNS, 1e-6), {}, 9),
    "turns with noise": (FALLS, tuple(np.add(TURNS, [0.02, -0.02] * 6)), {}, 10),
    "less patience": (FALLS, TURNS, {"patience": "1"}, 7),
    "must rise by more": (FALLS, TURNS, {"least_rise": "0.7"}, 11),
    "from the first evaluation on": (FALLS, tuple(np.linspace(0.4, 1.5, 12)), {}, 7),
    "hardly fell": (FALLS, (0.53, 0.5, 0.5, *np.linspace(0.5, 0.8, 9)), {}, 10),
    "training falls to nothing": ((1.0, 0.5, 0.2, 0.1, 0.05, *[0.0] * 7), TURNS, {}, 9),
    "means of batches": (FALLS, [[value - 0.1, value + 0.1] for value in TURNS], {}, 9),
    "integers": (tuple(range(24, 0, -2)), (30, 20, 15, 12, 13, 16, *range(20, 32, 2)), {}, 10),
}


@pytest.mark.parametrize(("train", "validation", "parameters", "at"), FIRES.values(), ids=FIRES)
def test_fires(run: Any, train: Any, validation: Any, parameters: Any, at: int) -> None:
    verdicts = ends(rule(**parameters), run(train, validation))
    assert fired(verdicts) == list(range(at - 1, len(verdicts)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("rise", "expected"), [(1.5, True), (0.0, False)])
def test_evaluations_of_one_batch(run: Any, rise: float, expected: bool, seed: int) -> None:
    """Single ones say little, and the mean of fifteen says enough."""
    random = np.random.default_rng(seed)
    train = [1 / (1 + at) for at in range(120)]
    level = [2.0 - 0.6 * min(at, 6) / 6 + rise * max(0, at - 6) / 114 for at in range(120)]
    noisy = np.asarray(level) + 0.4 * random.standard_normal(120)
    assert (first_end(rule(), run(train, noisy)) is not None) is expected


@pytest.mark.parametrize(
    ("validation", "parameters", "expected"),
    [
        pytest.param((1.09, 1.11), {}, [False, True], id="a tenth"),
        pytest.param((1.2, 1.0, 1.2), {"patience": 2}, [False] * 3, id="in a row"),
        pytest.param((1.0, 1.2, 1.2), {"patience": 2}, [False, False, True], id="two in a row"),
        pytest.param((1.4, 1.6), {"ratio_threshold": "0.5"}, [False, True], id="ratio"),
        pytest.param((0.5, 0.1), {}, [False, False], id="below"),
    ],
)
def test_profile_sagemaker(run: Any, validation: Any, parameters: Any, expected: Any) -> None:
    verdicts = ends(rule("sagemaker", **parameters), run([1.0] * len(validation), validation))
    assert [verdict.violation for verdict in verdicts] == expected


@pytest.mark.parametrize(
    ("name", "first", "expected"),
    [("error", 0.06, False), ("error", 0.2, True), ("logloss", 0.06, True)],
)
def test_a_share_of_wrong_classes_must_have_fallen_once(
    make_step: MakeStep, name: str, first: float, expected: bool
) -> None:
    """It begins with the share of all but the most frequent class."""
    steps = [
        make_step(
            "losses",
            at,
            {
                f"train-{name}": 0.2 * 0.9**at,
                f"held-{name}": first if at < 3 else 0.055 + 0.002 * max(0, at - 5),
            },
            mode=Mode.GLOBAL,
            mode_step=at,
        )
        for at in range(30)
    ]
    assert bool(fired(judged(rule(), steps))) is expected


def test_xgboost_by_name(make_step: MakeStep) -> None:
    steps = [
        make_step(
            "losses",
            at,
            {"train-rmse": train, "validation-rmse": validation, "validation-auc": 0.5},
            mode=Mode.GLOBAL,
        )
        for at, (train, validation) in enumerate(zip(FALLS, TURNS, strict=True))
    ]
    verdicts = judged(rule(), steps)
    assert first(verdicts) == 9  # the ninth evaluation ends when the next one comes
    assert verdicts[9].tensor == "validation-rmse"


def test_metrics_that_should_rise(run: Any, make_step: MakeStep) -> None:
    def steps(name: str) -> list[Step]:
        return [
            make_step(
                "losses",
                at,
                {f"train-{name}": 1 - train / 2, f"eval-{name}": 1 - validation / 2},
                mode=Mode.GLOBAL,
            )
            for at, (train, validation) in enumerate(zip(FALLS, TURNS, strict=True))
        ]

    found, *_ = violations(rule(tensor_regex="-auc"), steps("auc")).values()
    assert 0 < float(found.evidence["validation"]) < float(found.evidence["training"]) < 1
    assert violations(rule(tensor_regex="-x", direction="rises"), steps("x"))
    assert not violations(rule(tensor_regex="-x"), steps("x"))


def test_says_what_was_compared(run: Any) -> None:
    verdict = ends(rule(), run(FALLS, TURNS))[8]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (
        Reason.INCREASING,
        "loss",
        "worker_0",
    )
    assert verdict.detail == "loss is 0.98 with a training loss of 0.168; its best was 0.5"
    assert list(verdict.evidence) == ["ratio", "validation", "training", "best"]
    assert verdict.evidence["ratio"] == pytest.approx(0.98 / 0.8**8 - 1, rel=1e-5)


@pytest.mark.parametrize(
    ("train", "validation", "expected"),
    [
        (FALLS, LEVELS_OFF, [Outcome.UNDECIDED] * 4 + [Outcome.HEALTHY] * 8),
        (FALLS, [TensorSummary()] * 12, [Outcome.NOT_APPLICABLE] * 12),
        ([TensorSummary()] * 12, TURNS, [Outcome.NOT_APPLICABLE] * 12),
    ],
)
def test_outcomes(run: Any, train: Any, validation: Any, expected: Any) -> None:
    assert [verdict.outcome for verdict in ends(rule(), run(train, validation))] == expected


@pytest.mark.parametrize(
    ("begins", "expected"),
    [((0.3, 1.1, 0.9, 0.8), None), ((1.0, 0.35, 0.9, 0.8), None), ((0.4, 0.35, 0.3, 0.5), 8)],
    ids=["a lucky first", "a lucky second", "no luck"],
)
def test_a_low_evaluation_at_the_start_is_luck(
    run: Any, begins: Sequence[float], expected: int | None
) -> None:
    validation = (*begins, 0.7, 0.68, 0.66, 0.64, 0.62, 0.61, 0.6, 0.6)
    assert first_end(rule(), run(FALLS, validation)) == expected


RISES = tuple(1.0 * 1.04**at for at in range(12))


@pytest.mark.parametrize(
    ("validation", "expected"),
    [(RISES, 8), (RISES[::2] + RISES[:6], None), ((1.0, 0.9, *RISES[:10]), None)],
    ids=["at every evaluation", "not at every one", "after it fell"],
)
def test_a_loss_that_rises_from_the_first_evaluation_on(
    run: Any, make_tensor: Any, validation: Sequence[float], expected: int | None
) -> None:
    """Though it is far below that of a constant guess, and a metric may improve."""
    rows = np.array([[1.0, 30.0, 20.0, 64.0]] * 4)
    skill = replace(make_tensor("loss/skill", rows), value=rows)
    steps = [
        replace(step, tensors={**step.tensors, "skills": (skill,)})
        for step in run(FALLS, validation)
    ]
    assert first_end(rule(), steps) == expected
