from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Role, TensorSummary, Verdict
from tocsin.rules import BadRule, Step, build
from tocsin.rules.overfit import Overfit

NAN = float("nan")
MakeStep = Callable[..., Step]

FALLS = tuple(0.8**at for at in range(12))  # training loss
TURNS = (1.0, 0.7, 0.5, 0.45, 0.5, 0.62, 0.74, 0.86, 0.98, 1.1, 1.22, 1.34)
LEVELS_OFF = (1.0, 0.7, 0.55, 0.5, 0.49, 0.5, 0.5, 0.49, 0.5, 0.49, 0.5, 0.5)
NOISE = np.random.default_rng(3)


def rule(profile: str = "recommended", **parameters: Any) -> Overfit:
    built, _ = build("Overfit", parameters, profile)
    assert isinstance(built, Overfit)
    return built


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


def judged(rule: Overfit, steps: Iterable[Step]) -> list[Verdict]:
    """The verdicts at the ends of evaluations."""
    state: Any = {}
    verdicts = []
    for step in steps:
        state, verdict = rule.evaluate(state, step)
        state = msgspec.json.decode(msgspec.json.encode(state))
        if step.mode is Mode.TRAIN and step.step % 3 == 0 and step.step:
            verdicts.append(verdict)
        else:
            assert not verdict.violation
    return verdicts


def first(verdicts: Iterable[Verdict]) -> int | None:
    """After which evaluation it fired, counted from 1."""
    return next((at for at, verdict in enumerate(verdicts, 1) if verdict.violation), None)


def scaled(values: Iterable[float], by: float) -> tuple[float, ...]:
    return tuple(by * value for value in values)


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
    "NaN": (FALLS, (*LEVELS_OFF[:6], *[NAN] * 6)),
    "training is NaN": ([NAN] * 12, TURNS),
    "empty": (FALLS, [[]] * 12),
    "unknown": (FALLS, [TensorSummary()] * 12),
    "zeros": ([0.0] * 12, [0.0] * 12),
    "huge": (scaled(FALLS, 1e300), scaled(TURNS, 1e300)),
}


@pytest.mark.parametrize(("train", "validation"), QUIET.values(), ids=QUIET)
def test_quiet(run: Any, train: Any, validation: Any) -> None:
    assert first(judged(rule(), run(train, validation))) is None


FIRES = {
    "turns": (FALLS, TURNS, {}, 9),
    "turns, large numbers": (scaled(FALLS, 1e6), scaled(TURNS, 1e6), {}, 9),
    "turns, small numbers": (scaled(FALLS, 1e-6), scaled(TURNS, 1e-6), {}, 9),
    "turns with noise": (FALLS, tuple(np.add(TURNS, [0.02, -0.02] * 6)), {}, 10),
    "less patience": (FALLS, TURNS, {"patience": "1"}, 7),
    "must rise by more": (FALLS, TURNS, {"least_rise": "0.7"}, 11),
    "from the first evaluation on": (FALLS, tuple(np.linspace(0.4, 1.5, 12)), {}, 7),
    "training falls to nothing": ((1.0, 0.5, 0.2, 0.1, 0.05, *[0.0] * 7), TURNS, {}, 9),
    "means of batches": (FALLS, [[value - 0.1, value + 0.1] for value in TURNS], {}, 9),
    "integers": (tuple(range(24, 0, -2)), (30, 20, 15, 12, 13, 16, *range(20, 32, 2)), {}, 10),
}


@pytest.mark.parametrize(("train", "validation", "parameters", "at"), FIRES.values(), ids=FIRES)
def test_fires(run: Any, train: Any, validation: Any, parameters: Any, at: int) -> None:
    verdicts = judged(rule(**parameters), run(train, validation))
    assert first(verdicts) == at
    assert all(verdict.violation for verdict in verdicts[at - 1 :])


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
    verdicts = judged(rule("sagemaker", **parameters), run([1.0] * len(validation), validation))
    assert [verdict.violation for verdict in verdicts] == expected


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
    state: Any = {}
    verdicts = []
    for step in steps:
        state, verdict = rule().evaluate(state, step)
        verdicts.append(verdict)
    assert first(verdicts) == 10  # the ninth evaluation is over when the next one comes
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

    def fired(judge: Overfit, steps: list[Step]) -> list[Verdict]:
        state: Any = {}
        verdicts = []
        for step in steps:
            state, verdict = judge.evaluate(state, step)
            verdicts.append(verdict)
        return [verdict for verdict in verdicts if verdict.violation]

    found = fired(rule(tensor_regex="-auc"), steps("auc"))
    assert found
    assert 0 < float(found[0].evidence["validation"]) < float(found[0].evidence["training"]) < 1
    assert fired(rule(tensor_regex="-x", direction="rises"), steps("x"))
    assert not fired(rule(tensor_regex="-x"), steps("x"))


def test_says_what_was_compared(run: Any) -> None:
    verdict = judged(rule(), run(FALLS, TURNS))[8]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (
        Reason.INCREASING,
        "loss",
        "worker_0",
    )
    assert verdict.detail == "loss is 0.98 with a training loss of 0.168; it had been at 0.5"
    assert list(verdict.evidence) == ["validation", "training", "best", "ratio"]
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
    assert [verdict.outcome for verdict in judged(rule(), run(train, validation))] == expected


def test_reads_losses_and_metrics_unless_others_are_named() -> None:
    (read,) = rule().reads().tensors.values()
    assert (read.roles, read.regex, read.values) == ((Role.LOSS, Role.METRIC), (), False)
    (read,) = rule(tensor_regex=".*auc, .*loss").reads().tensors.values()
    assert (read.roles, read.regex) == ((), (".*auc", ".*loss"))


def test_profiles() -> None:
    assert build("Overfit", {}) == (Overfit(), {})
    amazon = Overfit(patience=1, ratio_threshold=0.1, least_rise=None)
    assert build("Overfit", {}, "sagemaker") == (amazon, {"start_step": 0})
    wire = {"tensor_regex": ".*", "start_step": "20", "patience": "4", "ratio_threshold": "0.25"}
    built, options = build("Overfit", wire, "sagemaker")
    assert built == Overfit((".*",), 4, 0.25, None)
    assert options == {"start_step": "20"}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"patience": "0"}, "patience is 0, but must be at least 1"),
        ({"ratio_threshold": "-1"}, "ratio_threshold is -1.0, but must be a number of at least 0"),
        ({"ratio_threshold": "nan"}, "ratio_threshold is nan, but must be"),
        ({"least_rise": "inf"}, "least_rise is inf, but must be"),
        ({"direction": "up"}, "parameter direction"),
    ],
)
def test_refused_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule) as caught:
        build("Overfit", parameters)
    assert message in str(caught.value)
