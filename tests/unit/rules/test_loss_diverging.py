from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Role, TensorSummary, Verdict
from tocsin.rules import BadRule, Read, Step, Tensor, build
from tocsin.rules.loss_diverging import LossDiverging

NAN, INF = float("nan"), float("inf")
MakeStep = Callable[..., Step]
MakeTensor = Callable[..., Tensor]

RANDOM = np.random.default_rng(3)
NOISE = RANDOM.standard_normal(400)
SINGLE = RANDOM.chisquare(1, 400)  # squared errors of single samples
STEPS = np.arange(400)
FALLS = [2.3 * 0.9**at + 0.1 for at in range(40)]


def rule(profile: str = "recommended", **parameters: Any) -> LossDiverging:
    built, _ = build("LossDiverging", parameters, profile)
    assert isinstance(built, LossDiverging)
    return built


def judged(rule: LossDiverging, steps: Iterable[Step]) -> list[Verdict]:
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
        pytest.param([2.3, *[20.0, 17.0, 25.0] * 5], 8, id="thrown up at once"),
        pytest.param([2.3 * 1.5**at for at in range(40)], 15, id="grows without end"),
        pytest.param([2.6, 3.2, 3.6, 4.9, 8.9, 11, 13, 17, *[26.8] * 20], 12, id="grows, is held"),
        pytest.param([*FALLS, *[30.0] * 10], 47, id="falls, then explodes"),
        pytest.param([*FALLS, *[2.3] * 10], 47, id="falls and comes back"),
        pytest.param([*FALLS, *[1.2] * 30], None, id="comes back by half"),
        pytest.param([*FALLS, 50.0, *FALLS], None, id="one spike"),
        pytest.param([2.3] * 40, None, id="flat"),
        pytest.param([2.3, *[5.0] * 40], None, id="doubles"),
        pytest.param([0.0] * 20, None, id="zero"),
        pytest.param([0.0, *[1.0] * 20], 8, id="from zero up"),
        pytest.param([-10.0 - at for at in range(40)], None, id="negative, falls"),
        pytest.param([-1.0, -1.1, -1.0, *[40.0] * 20], 10, id="negative, rises"),
        pytest.param([1.0, NAN, NAN, NAN, 1.0], 3, id="lost"),
        pytest.param([NAN] * 5, 2, id="never found"),
        pytest.param([1.0, NAN, NAN] * 10, None, id="lost for two of three"),
        pytest.param([1.0, INF, -INF, INF], 3, id="infinite"),
        pytest.param([*FALLS, INF, *FALLS], None, id="infinite once"),
        pytest.param([1e300 * 10.0**at for at in range(8)] + [1.7e308] * 12, 14, id="huge"),
        pytest.param([2.3], None, id="one save"),
        pytest.param([np.int64(1), *[np.uint8(9)] * 12], 8, id="integers"),
        pytest.param([[2.0, 2.6], *[[20.0, 30.0]] * 12], 8, id="means of batches"),
        pytest.param([[], TensorSummary(), 2.3, *[20.0] * 9], 10, id="unknown at first"),
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
        pytest.param([1e-4, *SINGLE], id="single samples, a lucky first"),
        pytest.param(NOISE, id="about zero"),
        pytest.param(np.exp(NOISE), id="heavy tails"),
        pytest.param(2.3 + 0.2 * NOISE, id="label noise"),
        pytest.param(1 + 0.5 * np.sin(STEPS / 15) + 0.1 * NOISE, id="like a GAN's"),
        pytest.param(0.05 + 2.2 * 0.9**STEPS + 0.8 * (STEPS % 100 < 10), id="restarts"),
        pytest.param(2.3 + 0.3 * np.sin(np.minimum(STEPS / 10, 1.5)) - STEPS / 200, id="warm-up"),
    ],
)
def test_what_is_healthy(make_step: MakeStep, losses: Any) -> None:
    steps = [make_step("losses", at, {"loss": loss}) for at, loss in enumerate(losses)]
    assert first(judged(rule(), steps)) is None


def test_losses_that_pull_against_each_other(make_step: MakeStep) -> None:
    steps = [
        make_step("losses", at, {"d": 1.4 * 0.95**at, "g": 0.7 + 0.2 * at}) for at in range(60)
    ]
    assert first(judged(rule(), steps)) is None
    alone = [make_step("losses", at, {"g": 0.7 + 0.2 * at}) for at in range(60)]
    assert first(judged(rule(), alone)) is not None


def test_only_training_is_judged(make_step: MakeStep) -> None:
    """Evaluation before training and in between, with a loss that explodes."""
    steps = []
    for at in range(40):
        steps.append(make_step("losses", 2 * at, {"loss": 2.0**at}, mode=Mode.EVAL))
        steps.append(make_step("losses", 2 * at + 1, {"loss": 1 / (1 + at)}))
    verdicts = judged(rule(), steps)
    assert first(verdicts) is None
    assert {verdict.outcome for verdict in verdicts[::2]} == {Outcome.NOT_APPLICABLE}


def test_modes_may_be_unknown(make_step: MakeStep) -> None:
    losses = [2.3, *[20.0] * 10]
    steps = [
        make_step("losses", at, {"loss": loss}, mode=Mode.GLOBAL) for at, loss in enumerate(losses)
    ]
    assert first(judged(rule(), steps)) == 8


def test_what_should_rise(make_step: MakeStep) -> None:
    losses = [make_step("losses", at, {"score": 1.0 if at == 0 else -20.0}) for at in range(12)]
    assert first(judged(rule(), losses)) is None
    assert first(judged(rule(direction="rises"), losses)) == 8


def test_says_what_happened(make_step: MakeStep, make_tensor: MakeTensor) -> None:
    def at(step: int, loss: float) -> Step:
        found = [make_tensor("a", 9.0), make_tensor("b", 2.5), make_tensor("b", loss, worker="w1")]
        return make_step("losses", step, found)

    verdict = judged(rule(), [at(step, 2.5 if step == 0 else 37.5) for step in range(9)])[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (Reason.INCREASING, "b", "w1")
    assert verdict.detail == "b is 20 by the median of 8 saves; it began at 2.5"
    assert dict(verdict.evidence) == {"loss": 20.0, "first": 2.5}

    back = [make_step("losses", step, {"c": loss}) for step, loss in enumerate([*FALLS, *FALLS])]
    back += [make_step("losses", 80 + step, {"c": 2.4}) for step in range(8)]
    detail = judged(rule(), back)[-1].detail
    assert detail.startswith("c is 2.4 by the median of 8 saves; it began at 2.4 and had come down")

    lost = judged(rule(), [make_step("losses", step, {"d": NAN}) for step in range(3)])[-1]
    assert lost.reason is Reason.NOT_FINITE
    assert lost.detail == "d is nan and was not finite for 3 saves"


@pytest.mark.parametrize("found", [{}, {"loss": []}, {"loss": np.array("a")}])
def test_no_loss_is_not_applicable(make_step: MakeStep, found: Mapping[str, Any]) -> None:
    state, verdict = rule().evaluate({}, make_step("losses", 0, found))
    assert state == {}
    assert (verdict.outcome, verdict.reason) == (Outcome.NOT_APPLICABLE, Reason.NO_TENSOR)


def test_the_state_of_many_losses_is_small(make_step: MakeStep) -> None:
    state: Any = {}
    for at in range(60):
        found = {f"a_loss_with_a_long_name_{number}" * 3: 1.23456789e-5 * at for number in range(9)}
        state, _ = rule(window=32).evaluate(state, make_step("losses", at, found))
    assert len(msgspec.json.encode(state)) < 8192


def test_reads_losses_unless_others_are_named() -> None:
    fields = ("mean", "nan", "posinf", "neginf")
    assert rule().reads().tensors == {"losses": Read(roles=(Role.LOSS,), fields=fields)}
    named = rule(collection_names="metrics", tensor_regex="loss,cost").reads().tensors
    assert named["losses"] == Read(collections=("metrics",), regex=("loss", "cost"), fields=fields)


@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
def test_parameters_as_on_the_wire(profile: str) -> None:
    wire = {"window": "12", "factor": "10", "comeback": "7", "noise": "0", "direction": "falls"}
    built = LossDiverging(window=12, factor=10.0, comeback=7.0, noise=0.0, direction="falls")
    assert build("LossDiverging", wire, profile)[0] == built
    assert rule(direction="None") == rule()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window": "3"}, "window is 3, but must be from 4 to 32"),
        ({"window": "33"}, "window is 33, but must be from 4 to 32"),
        ({"factor": "1"}, "factor is 1.0, but must be above 1"),
        ({"factor": "inf"}, "factor is inf, but must be above 1"),
        ({"comeback": "nan"}, "comeback is nan, but must be above 1"),
        ({"noise": "-1"}, "noise is -1.0, but must be a number from 0"),
        ({"direction": "up"}, "parameter direction"),
    ],
)
def test_refused_parameters(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(BadRule, match=r"^LossDiverging: ") as caught:
        build("LossDiverging", parameters)
    assert message in str(caught.value)
