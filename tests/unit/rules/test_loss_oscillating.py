from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Role, TensorSummary, Verdict
from tocsin.rules import BadRule, Read, Step, build
from tocsin.rules.loss_oscillating import LossOscillating

NAN, INF = float("nan"), float("inf")
MakeStep = Callable[..., Step]

RANDOM = np.random.default_rng(4)
NOISE = RANDOM.standard_normal(400)
SINGLE = RANDOM.chisquare(1, 400)  # squared errors of single samples
STEPS = np.arange(400)
CALM = [2.3 - 0.01 * at for at in range(10)]
SWINGS = [1.5, 9.0] * 20


def rule(profile: str = "recommended", **parameters: Any) -> LossOscillating:
    built, _ = build("LossOscillating", parameters, profile)
    assert isinstance(built, LossOscillating)
    return built


def judged(rule: LossOscillating, steps: Iterable[Step]) -> list[Verdict]:
    state: Any = {}
    verdicts = []
    for step in steps:
        state, verdict = rule.evaluate(state, step)
        verdicts.append(verdict)
    return verdicts


def first(verdicts: Iterable[Verdict]) -> int | None:
    """Which save is the first in violation."""
    return next((at for at, verdict in enumerate(verdicts) if verdict.violation), None)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param([*CALM, *SWINGS], 19, id="calm, then swings"),
        pytest.param([*CALM, *np.repeat(SWINGS, 3)], 22, id="slow swings"),
        pytest.param([*CALM, *[1.5, 3.0] * 20], None, id="small swings"),
        pytest.param(
            [*CALM, *[0.2] * 20, *[0.1, 3.0, 0.2] * 20], None, id="it learns all the same"
        ),
        pytest.param([*CALM, *[9.0] * 40], None, id="one jump"),
        pytest.param([*CALM, *[1.5] * 10, *[9.0] * 10, *[1.5] * 20], None, id="a hump"),
        pytest.param([*CALM, *np.linspace(2, 40, 40)], None, id="grows steadily"),
        pytest.param([2.3, *SWINGS], None, id="from the beginning"),
        pytest.param([2.3] * 60, None, id="flat"),
        pytest.param([0.0] * 60, None, id="zero"),
        pytest.param([-1.0] * 10 + [-4.0, 3.0] * 20, 19, id="negative"),
        pytest.param([*CALM, NAN, INF, *SWINGS], 31, id="not finite in between"),
        pytest.param([NAN] * 40, None, id="lost"),
        pytest.param([2.3], None, id="one save"),
        pytest.param([[2.3, 2.5]] * 10 + [[1.0, 2.0], [8.0, 10.0]] * 20, 19, id="means of batches"),
        pytest.param([np.int64(2)] * 10 + [np.int64(1), np.int64(9)] * 20, 19, id="integers"),
        pytest.param([[], TensorSummary(), *CALM, *SWINGS], 21, id="unknown at first"),
    ],
)
def test_when_it_fires(make_step: MakeStep, losses: list[Any], expected: int | None) -> None:
    steps = [make_step("losses", 10 * at, {"loss": loss}) for at, loss in enumerate(losses)]
    assert first(judged(rule(), steps)) == expected


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param(SINGLE, id="single samples"),
        pytest.param(SINGLE * (0.1 + 0.9 * 0.98**STEPS), id="single samples, learned"),
        pytest.param(NOISE, id="about zero"),
        pytest.param(2.3 + 0.4 * NOISE, id="label noise"),
        pytest.param(1 + 0.5 * np.sin(STEPS / 3) + 0.1 * NOISE, id="like a GAN's"),
        pytest.param(0.05 + 2.2 * 0.9**STEPS + 0.8 * (STEPS % 40 < 10), id="restarts"),
        pytest.param(0.3 + 2 * 0.95**STEPS * np.exp(NOISE / 3), id="small batches"),
    ],
)
def test_what_is_healthy(make_step: MakeStep, losses: Any) -> None:
    steps = [make_step("losses", at, {"loss": loss}) for at, loss in enumerate(losses)]
    assert first(judged(rule(), steps)) is None


def test_quiet_beside_a_loss_that_falls(make_step: MakeStep) -> None:
    losses = [*CALM, *SWINGS]
    both = [make_step("losses", at, {"d": 0.95**at, "g": loss}) for at, loss in enumerate(losses)]
    assert first(judged(rule(), both)) is None


def test_only_training_is_judged(make_step: MakeStep) -> None:
    steps = []
    for at, loss in enumerate([*CALM, *SWINGS]):
        steps.append(make_step("losses", 2 * at, {"loss": loss}, mode=Mode.EVAL))
        steps.append(make_step("losses", 2 * at + 1, {"loss": 1.0}))
    verdicts = judged(rule(), steps)
    assert first(verdicts) is None
    assert {verdict.outcome for verdict in verdicts[::2]} == {Outcome.NOT_APPLICABLE}


def test_says_what_happened(make_step: MakeStep) -> None:
    losses = [2.5] * 10 + SWINGS
    steps = [make_step("losses", at, {"a": 2.5, "b": loss}) for at, loss in enumerate(losses)]
    verdict = judged(rule(), steps)[-1]
    assert (verdict.reason, verdict.tensor) == (Reason.OSCILLATING, "b")
    assert verdict.detail == "b swings between 1.5 and 9; it began at 2.5"
    assert dict(verdict.evidence) == {"swing": 7.5, "first": 2.5, "median": 1.5}


@pytest.mark.parametrize("found", [{}, {"loss": []}, {"loss": np.array("a")}])
def test_no_loss_is_not_applicable(make_step: MakeStep, found: Mapping[str, Any]) -> None:
    state, verdict = rule().evaluate({}, make_step("losses", 0, found))
    assert state == {}
    assert (verdict.outcome, verdict.reason) == (Outcome.NOT_APPLICABLE, Reason.NO_TENSOR)


def test_the_state_of_many_losses_is_small(make_step: MakeStep) -> None:
    state: Any = {}
    for at in range(60):
        found = {f"a_loss_with_a_long_name_{number}" * 3: 1.23456789e-5 * at for number in range(9)}
        state, _ = rule(window=48).evaluate(state, make_step("losses", at, found))
    assert len(msgspec.json.encode(state)) < 8192


def test_reads_losses_unless_others_are_named() -> None:
    fields = ("mean", "nan", "posinf", "neginf")
    assert rule().reads().tensors == {"losses": Read(roles=(Role.LOSS,), fields=fields)}
    named = rule(collection_names="metrics", tensor_regex="loss,cost").reads().tensors
    assert named["losses"] == Read(collections=("metrics",), regex=("loss", "cost"), fields=fields)


@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
def test_parameters_as_on_the_wire(profile: str) -> None:
    wire = {"window": "30", "amplitude": "2", "calm": "0", "direction": "falls"}
    built = LossOscillating(window=30, amplitude=2.0, calm=0.0, direction="falls")
    assert build("LossOscillating", wire, profile)[0] == built


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window": "9"}, "window is 9, but must be from 10 to 48"),
        ({"window": "49"}, "window is 49, but must be from 10 to 48"),
        ({"amplitude": "0"}, "amplitude is 0.0, but must be a number above 0"),
        ({"amplitude": "nan"}, "amplitude is nan, but must be a number above 0"),
        ({"calm": "-1"}, "calm is -1.0, but must be a number from 0"),
    ],
)
def test_refused_parameters(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(BadRule, match=r"^LossOscillating: ") as caught:
        build("LossOscillating", parameters)
    assert message in str(caught.value)
