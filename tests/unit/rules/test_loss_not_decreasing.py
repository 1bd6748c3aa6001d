from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary
from tocsin.rules import BadRule, Step, Tensor, build
from tocsin.rules.loss.loss_not_decreasing import LossNotDecreasing

from tests.unit.rules.comparing import comparisons, noisy
from tests.unit.rules.judging import decided, made, violations

NAN, INF = float("nan"), float("inf")
TRAIN, EVAL, PREDICT, GLOBAL = Mode.TRAIN, Mode.EVAL, Mode.PREDICT, Mode.GLOBAL
OK, FLAT, RISE, BAD = (
    Reason.WITHIN_BOUNDS,
    Reason.NOT_DECREASING,
    Reason.INCREASING,
    Reason.NOT_FINITE,
)

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


def rule(profile: str = "sagemaker", **parameters: Any) -> LossNotDecreasing:
    built: LossNotDecreasing = made("LossNotDecreasing", profile, **parameters)
    return built


def every(interval: int, losses: Iterable[Any], start: int = 0) -> dict[int, Any]:
    return {start + interval * at: loss for at, loss in enumerate(losses)}


HISTORIC = (0.3, 0.33, 0.31, 0.30, 0.28)


@pytest.mark.parametrize(
    ("losses", "parameters", "expected"),
    [
        pytest.param(every(4, HISTORIC), {}, {12: FLAT}, id="historic"),
        *(
            pytest.param(
                {at: loss for at, loss in every(4, HISTORIC).items() if at >= start},
                {},
                {},
                id=f"historic from {start}",
            )
            for start in range(13, 18)
        ),
        pytest.param(
            every(4, (*HISTORIC, 0.2, 0.42)), {"diff_percent": "20"}, {12: FLAT, 24: RISE}, id="20%"
        ),
        pytest.param({0: 1.0}, {}, {}, id="one step"),
        pytest.param({7: 1.0, 16: 1.0}, {}, {}, id="9 steps apart"),
        pytest.param({7: 1.0, 17: 1.0}, {}, {17: FLAT}, id="10 steps apart"),
        pytest.param({0: 2.0, 10: 1.0, 20: 0.5}, {}, {10: OK, 20: OK}, id="falls"),
        pytest.param({0: 100.0, 10: 99.5}, {"diff_percent": "0.5"}, {10: OK}, id="falls by it"),
        pytest.param({0: 100.0, 10: 99.91}, {}, {10: FLAT}, id="falls by less"),
        pytest.param({0: 100.0, 10: 100.0}, {"diff_percent": "0"}, {10: OK}, id="flat is enough"),
        pytest.param({0: 100.0, 10: 105.0}, {}, {10: OK}, id="rises by the tolerance"),
        pytest.param({0: 100.0, 10: 105.1}, {}, {10: RISE}, id="rises by more"),
        pytest.param(
            {0: 100.0, 10: 100.001}, {"increase_threshold_percent": "0"}, {10: RISE}, id="no rise"
        ),
        pytest.param({0: 0.0, 10: 0.0}, {}, {10: FLAT}, id="zero"),
        pytest.param({0: 0.0, 10: 1e-9}, {}, {10: RISE}, id="from zero up"),
        pytest.param({0: 0.0, 10: -1.0}, {}, {10: OK}, id="from zero down"),
        pytest.param({0: 1.0, 10: 0.0}, {}, {10: OK}, id="to zero"),
        pytest.param({0: -1.0, 10: -2.0}, {}, {10: OK}, id="negative, falls"),
        pytest.param({0: -2.0, 10: -1.0}, {}, {10: RISE}, id="negative, rises"),
        pytest.param({0: 1e308, 10: -1e308}, {}, {10: OK}, id="beyond float"),
        pytest.param({0: -1e308, 10: 1e308}, {}, {10: RISE}, id="beyond float, rises"),
        pytest.param({0: 5e-324, 10: 5e-324}, {}, {10: FLAT}, id="denormal"),
        pytest.param({0: NAN}, {}, {0: BAD}, id="NaN at first"),
        pytest.param({0: 1.0, 3: NAN, 10: 0.5}, {}, {3: BAD, 10: OK}, id="NaN in between"),
        pytest.param({0: NAN, 5: 1.0, 15: 1.0}, {}, {0: BAD, 15: FLAT}, id="NaN, then flat"),
        pytest.param({0: 1.0, 10: INF}, {}, {10: BAD}, id="infinite"),
        pytest.param({0: 1.0, 10: -INF}, {}, {10: BAD}, id="falls without end"),
        pytest.param({0: 1.0, 10: [0.5, INF]}, {}, {10: BAD}, id="one of the batch"),
        pytest.param({0: [3.0, 1.0], 10: [[1.0], [1.0]]}, {}, {10: OK}, id="mean of the batch"),
        pytest.param({0: [], 10: [], 20: []}, {}, {}, id="empty"),
        pytest.param({0: 1.0, 10: [], 20: 1.0}, {}, {20: FLAT}, id="empty in between"),
        pytest.param({0: TensorSummary(), 10: TensorSummary()}, {}, {}, id="unknown"),
        pytest.param({0: np.array("a"), 10: np.array("b")}, {}, {}, id="text"),
        pytest.param({0: np.int64(4), 10: np.array([2], np.uint8)}, {}, {10: OK}, id="integers"),
        pytest.param({0: np.float16(2), 10: np.float16(2)}, {}, {10: FLAT}, id="half, 0-d"),
        pytest.param({0: 1.0, 5000: 1.0, 5003: 1.0}, {}, {5000: FLAT}, id="gap"),
        pytest.param({0: 4.0, 1: 3.0, 2: 2.0, 20: 2.0}, {}, {20: FLAT}, id="gap after newer saves"),
        pytest.param(
            {0: 8.0, 7: 8.0, 13: 4.0, 14: 4.0, 26: 4.0, 40: 1.0},
            {},
            {13: OK, 26: FLAT, 40: OK},
            id="irregular",
        ),
        pytest.param({10**12: 1.0, 10**12 + 10: 1.0}, {}, {10**12 + 10: FLAT}, id="late"),
        pytest.param({0: 1.0, 1: 1.0, 2: 0.5}, {"num_steps": "1"}, {1: FLAT, 2: OK}, id="each"),
    ],
)
def test_one_loss_in_profile_sagemaker(
    make_step: MakeStep, losses: dict[int, Any], parameters: dict[str, str], expected: Any
) -> None:
    steps = [make_step("losses", at, {"loss": loss}) for at, loss in losses.items()]
    verdicts = decided(rule(**parameters), steps)
    assert {at: verdict.reason for at, verdict in verdicts.items()} == expected


@pytest.mark.parametrize(
    ("losses", "parameters", "expected"),
    [
        pytest.param(every(10, [2.3] * 31), {}, {200: FLAT, 300: FLAT}, id="never"),
        pytest.param(every(10, [2.3] * 20), {}, {}, id="too few saves"),
        pytest.param(every(1, [2.3] * 100), {}, {}, id="too few steps"),
        pytest.param(every(1, [2.3] * 101), {}, {100: FLAT}, id="every step"),
        pytest.param(every(500, [2.3] * 18), {}, {7500: FLAT, 8000: FLAT, 8500: FLAT}, id="rare"),
        pytest.param(
            every(10, [2.3, 2.0, *[1.8] * 29]), {}, {100: OK, 200: OK, 300: OK}, id="levels off"
        ),
        pytest.param(
            every(10, [2.3, 2.0, *[1.8] * 29]),
            {"settled_percent": None},
            {100: OK, 200: FLAT, 300: FLAT},
            id="must not level off",
        ),
        pytest.param(
            every(10, [2.3, *[2.2] * 30]), {}, {200: OK, 300: OK}, id="levels off a little lower"
        ),
        pytest.param(
            every(10, [2.3, *[0.3] * 10, *[2.4] * 20]),
            {},
            {100: OK, 200: OK, 300: OK},
            id="comes back, for LossDiverging",
        ),
        pytest.param(
            every(10, [2.3, 2.2, *[2.1] * 9, *[2.5] * 20]),
            {},
            {200: RISE, 300: RISE},
            id="rises above its beginning",
        ),
        pytest.param(
            every(10, [2.3 - at / 1000 for at in range(31)]), {}, {200: OK, 300: OK}, id="slowly"
        ),
        pytest.param(
            every(10, [2.3 - at / 1e5 for at in range(31)]), {}, {200: FLAT, 300: FLAT}, id="hardly"
        ),
        pytest.param(
            every(10, [2.3 - 0.01 * (1 - 0.5**at) for at in range(31)]),
            {},
            {200: FLAT, 300: FLAT},
            id="ever more slowly",
        ),
        pytest.param(
            every(10, [1.0, *[3.0] * 30]), {}, {200: FLAT, 300: FLAT}, id="tripled after the first"
        ),
        pytest.param(
            every(10, [1.0, *[2.0] * 30]),
            {"direction": "rises"},
            {100: OK, 200: OK, 300: OK},
            id="rises as it should",
        ),
        pytest.param(
            every(10, [2.3 + 5 * (at % 7 == 3) for at in range(31)]),
            {},
            {200: FLAT, 300: FLAT},
            id="flat but for odd batches",
        ),
        pytest.param(
            every(10, [2.3 + at % 3 for at in range(31)]), {}, {200: OK, 300: OK}, id="too noisy"
        ),
        pytest.param(every(10, [0.0] * 21), {}, {200: FLAT}, id="zero"),
        pytest.param({0: NAN, 10: INF}, {}, {0: BAD, 10: BAD}, id="lost"),
    ],
)
def test_one_loss_in_profile_recommended(
    make_step: MakeStep, losses: dict[int, Any], parameters: dict[str, Any], expected: Any
) -> None:
    steps = [make_step("losses", at, {"loss": loss}) for at, loss in losses.items()]
    verdicts = decided(rule("recommended", **parameters), steps)
    assert {at: verdict.reason for at, verdict in verdicts.items()} == expected


@pytest.mark.parametrize(
    ("skill", "kind", "slope", "fires"),
    [
        (0.3, "cross_entropy", -1e-4, False),
        (0.3, "cross_entropy", 1e-3, False),  # drifts within its noise
        (0.3, "cross_entropy", 1e-2, True),
        (0.05, "cross_entropy", -1e-4, True),
        (0.3, "mse_loss", -1e-4, True),  # it may add to its inputs
        (0.8, "mse_loss", -1e-4, False),
        (0.8, "mse_loss", 1e-3, False),
        (0.8, "mse_loss", 1e-2, True),
    ],
)
def test_a_model_that_was_trained_before(
    make_step: MakeStep, skill: float, kind: str, slope: float, fires: bool
) -> None:
    steps = []
    for at, compared in enumerate(comparisons(noisy(skill, 400), kind=kind)):
        found = make_step("losses", 10 * at, {"loss": 2.0 + slope * at})
        steps.append(replace(found, tensors={**found.tensors, **compared.tensors}))
    assert bool(violations(rule("recommended"), steps)) is fires


def test_the_documented_example(make_step: MakeStep) -> None:
    """Saved every 3, num_steps 10: step 21 is set against 9, and the next is step 33."""
    steps = [make_step("losses", at, {"loss": 100.0 + at}) for at in range(9, 60, 3)]
    verdicts = decided(rule(num_steps=10, increase_threshold_percent=0), steps)
    assert {at: verdict.evidence["before"] for at, verdict in verdicts.items()} == {
        21: 109.0,
        33: 121.0,
        45: 133.0,
        57: 145.0,
    }


@pytest.mark.parametrize("num_steps", [100, 1000, 3000])
@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
def test_saved_at_every_step(make_step: MakeStep, num_steps: int, profile: str) -> None:
    """However long the distance, the comparison is with the loss at that distance."""
    judge = rule(profile, num_steps=num_steps, settled_percent=None, diff_percent=0.1)
    losses = [max(1000.0 - at, 1000.0 - num_steps * 1.5) for at in range(3 * num_steps + 1)]
    steps = (make_step("losses", at, {"loss": loss}) for at, loss in enumerate(losses))
    verdicts = decided(judge, steps)
    assert {at: verdict.reason for at, verdict in verdicts.items()} == {
        num_steps: OK,
        2 * num_steps: OK,
        3 * num_steps: FLAT,
    }


def test_a_gap_after_many_saves_is_bridged_by_a_save_about_that_far_back(
    make_step: MakeStep,
) -> None:
    judge = rule(num_steps=1000, increase_threshold_percent=0)
    saved = [*range(1000), 1500]
    steps = (make_step("losses", at, {"loss": 1000.0 + at}) for at in saved)
    before = decided(judge, steps)[1500].evidence["before"]
    assert 1500 - 1000 / 16 <= float(before) <= 1500


def test_says_what_was_compared(make_step: MakeStep, make_tensor: MakeTensor) -> None:
    losses = [make_tensor("a", 1.0, worker="worker_1")], [make_tensor("a", 1.5, worker="worker_1")]
    steps = [make_step("losses", at * 20, found) for at, found in enumerate(losses)]
    verdict = decided(rule(), steps)[20]
    assert (verdict.tensor, verdict.worker) == ("a", "worker_1")
    assert verdict.detail == "a rose from 1 to 1.5 in 20 steps"
    assert dict(verdict.evidence) == {"after": 1.5, "before": 1.0, "decrease_percent": -50.0}
    assert next(iter(verdict.evidence)) == "decrease_percent"

    flat = decided(rule(), [make_step("losses", at, {"b": 1.0}) for at in (0, 10)])[10]
    assert flat.detail == "b fell by less than 0.1 %: from 1 to 1 in 10 steps"

    lost = decided(rule(), [make_step("losses", 0, {"c": [NAN, 1.0]})])[0]
    assert lost.detail == "c is nan and can no longer decrease"
    assert str(lost.evidence["loss"]) == "nan"


def test_eval_before_train_and_each_mode_by_itself(make_step: MakeStep) -> None:
    """Modes count their own steps; one loss falls in TRAIN and rises in EVAL."""
    counts = {TRAIN: 0, EVAL: 0}
    steps = []
    for at in range(44):
        mode = EVAL if at % 2 == 0 else TRAIN
        loss = 2.0 + counts[mode] if mode is EVAL else 100.0 / (1 + counts[mode])
        steps.append(make_step("losses", at, {"loss": loss}, mode=mode, mode_step=counts[mode]))
        counts[mode] += 1
    alone = decided(rule(mode=None), steps)
    assert {at: verdict.reason for at, verdict in alone.items()} == {20: RISE, 40: RISE}
    train = decided(rule(mode="TRAIN"), steps)
    assert {at: verdict.reason for at, verdict in train.items()} == {21: OK, 41: OK}
    assert set(decided(rule(mode="EVAL"), steps)) == {20, 40}
    together = decided(rule(mode="GLOBAL"), steps)
    assert list(together) == [10, 20, 30, 40]  # one series, counted in steps of the run
    assert not decided(rule(mode="PREDICT"), steps)


def test_a_step_of_another_mode_is_not_decided(make_step: MakeStep) -> None:
    step = make_step("losses", 0, {"loss": NAN}, mode=EVAL)
    state, verdict = rule(mode="TRAIN").evaluate({}, step)
    assert (state, verdict.outcome) == ({}, Outcome.NOT_APPLICABLE)


def test_not_healthy_before_the_last_loss_is(make_step: MakeStep) -> None:
    """``b`` comes due between the comparisons of ``a``, and must not wipe out what those say."""
    steps = [make_step("losses", at, {"a": 1.0}) for at in range(0, 31, 10)]
    steps += [make_step("losses", at, {"b": 1.0 / at}) for at in range(5, 36, 10)]
    steps += [make_step("losses", 40, {"a": 0.5}), make_step("losses", 45, {"b": 0.01})]
    verdicts = decided(rule(), sorted(steps, key=lambda step: step.step))
    assert {at: verdict.reason for at, verdict in verdicts.items()} == {
        10: FLAT,
        20: FLAT,
        30: FLAT,
        40: OK,
        45: OK,
    }


def test_a_loss_that_is_lost_stays_so_beside_a_healthy_one(make_step: MakeStep) -> None:
    steps = [make_step("losses", at, {"a": 1.0 / (1 + at)}) for at in (0, 10, 20)]
    steps.insert(1, make_step("losses", 5, {"b": NAN}))
    assert {at: v.reason for at, v in decided(rule(), steps).items()} == {5: BAD}


def test_one_bad_loss_of_many_is_the_verdict(make_step: MakeStep, make_tensor: MakeTensor) -> None:
    def at(step: int, falling: float) -> Step:
        found = [
            make_tensor("a", falling),
            make_tensor("b", 1.0),
            make_tensor("a", falling, worker="worker_1"),
            make_tensor("unknown", TensorSummary()),
        ]
        return make_step("losses", step, found)

    verdicts = decided(rule(), [at(0, 2.0), at(10, 1.0)])
    assert verdicts[10].tensor == "b"


def test_the_mean_of_the_workers_counts(make_step: MakeStep, make_tensor: MakeTensor) -> None:
    def step(at: int, *losses: float) -> Step:
        workers = enumerate(losses)
        found = [make_tensor("a", loss, worker=f"worker_{rank}") for rank, loss in workers]
        return make_step("losses", at, found)

    assert decided(rule(), [step(0, 1.0, 9.0), step(10, 0.5, 9.0)])[10].reason is OK
    verdict = decided(rule(), [step(0, 1.0, 9.0), step(10, 0.5, 9.5)])[10]
    assert (verdict.reason, verdict.worker) == (FLAT, "worker_1")
    assert decided(rule(), [step(0, 8.0, 8.0), step(10, 3.0)])[10].reason is OK  # one is missing


def test_one_series_falls_and_the_others_may_rest(make_step: MakeStep) -> None:
    """In profile recommended; with a mode between, and with losses that pull apart."""
    steps = []
    for at in range(60):
        steps.append(make_step("losses", 20 * at, {"loss": 2.3}, mode=EVAL, mode_step=10 * at))
        found = {"loss": 2.3 * 0.95**at}
        steps.append(make_step("losses", 20 * at + 10, found, mode_step=10 * at))
    assert {verdict.reason for verdict in decided(rule("recommended"), steps).values()} == {OK}

    gan = [make_step("losses", at * 10, {"d": 1.4, "g": 0.7 + at / 50}) for at in range(60)]
    assert {verdict.reason for verdict in decided(rule("recommended"), gan).values()} == {OK}
    both = [make_step("losses", at * 10, {"a": 1.4, "b": 0.7}) for at in range(60)]
    assert {verdict.reason for verdict in decided(rule("recommended"), both).values()} == {FLAT}


def test_what_should_rise(make_step: MakeStep) -> None:
    steps = [make_step("losses", 10 * at, {"auc": 0.5}) for at in range(2)]
    assert decided(rule(), steps)[10].detail == (
        "auc rose by less than 0.1 %: from 0.5 to 0.5 in 10 steps"
    )
    steps = [make_step("losses", 10 * at, {"auc": 0.5 - at / 4}) for at in range(2)]
    verdict = decided(rule(), steps)[10]
    assert (verdict.reason, verdict.detail) == (RISE, "auc fell from 0.5 to 0.25 in 10 steps")
    assert dict(verdict.evidence) == {"after": 0.25, "before": 0.5, "decrease_percent": -50.0}


def test_undecided_until_there_is_something_to_compare(make_step: MakeStep) -> None:
    _, verdict = rule().evaluate({}, make_step("losses", 0, {"loss": 1.0}))
    assert (verdict.outcome, verdict.reason) == (Outcome.UNDECIDED, Reason.TOO_EARLY)


@pytest.mark.parametrize("parameters", [{}, {"settled_percent": None, "smooth": 20}])
@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
@pytest.mark.parametrize("interval", [1, 10])
def test_a_series_takes_less_than_1_kb(
    make_step: MakeStep, interval: int, profile: str, parameters: dict[str, Any]
) -> None:
    state: Any = {}
    judge = rule(profile, num_steps=1000, **parameters)
    for step in range(0, 350 * interval, interval):
        found = {"a_name_of_many_letters" * 9: 2.0 + 1 / (step + 3), "loss": 1.0}
        state, _ = judge.evaluate(state, make_step("losses", 10**7 + step, found))
        assert len(msgspec.json.encode(state)) < 2 * 1024
    assert state


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mode": "eval"}, "mode is 'eval', but must be one of TRAIN, EVAL, PREDICT, GLOBAL"),
        ({"use_losses_collection": "False"}, "name collection_names or tensor_regex"),
    ],
)
def test_refused_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule, match=r"^LossNotDecreasing: ") as caught:
        build("LossNotDecreasing", parameters)
    assert message in str(caught.value)
