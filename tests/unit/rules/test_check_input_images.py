from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Detail, Mode, Outcome, Reason, Role, TensorSummary
from tocsin.rules import BadRule, Read, Step, Tensor, build
from tocsin.rules.check_input_images import CheckInputImages
from tocsin.tensors import detailed, summarize

HEALTHY, VIOLATION, UNDECIDED, NOT_APPLICABLE = (
    Outcome.HEALTHY,
    Outcome.VIOLATION,
    Outcome.UNDECIDED,
    Outcome.NOT_APPLICABLE,
)
NAN = float("nan")


def image(value: Any, *, name: str = "x", worker: str = "worker_0", channel: int = 1) -> Tensor:
    if isinstance(value, TensorSummary):
        return Tensor(name, worker, value, (10, 3, 2, 2))
    value = np.asarray(value)
    channels = detailed(value, Detail(channel_axis=channel)).channels
    summary = msgspec.structs.replace(summarize(value), channels=channels)
    return Tensor(name, worker, summary, value.shape, str(value.dtype))


def judged(rule: CheckInputImages, steps: Sequence[Sequence[Tensor]]) -> tuple[Any, list[Any]]:
    state: Any = {}
    verdicts = []
    for at, found in enumerate(steps):
        step = Step(at, Mode(1 + at % 2), at, 0.0, {"images": tuple(found)})
        state, verdict = rule.evaluate(state, step)
        state = msgspec.json.decode(msgspec.json.encode(state))
        verdicts.append(verdict)
    return state, verdicts


def flat(*means: float, count: int = 10) -> np.ndarray:
    """Images whose channels have these means."""
    return np.broadcast_to(np.reshape(means, (1, -1, 1, 1)), (count, len(means), 2, 2)).copy()


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([flat(0.5)] * 3, [UNDECIDED, VIOLATION, VIOLATION]),
        ([flat(0.0, 0.2)] * 2, [UNDECIDED, HEALTHY]),
        ([flat(0.0, -0.21)] * 2, [UNDECIDED, VIOLATION]),
        ([flat(0.5), flat(-0.5), flat(-0.5)], [UNDECIDED, HEALTHY, HEALTHY]),  # of all together
        ([flat(0.9, count=1), flat(0.0, count=19)], [UNDECIDED, HEALTHY]),  # by samples
        ([flat(0.9, count=20)], [VIOLATION]),
        ([flat(0.5), flat(0.5, 0.5), flat(0.5, 0.5)], [UNDECIDED, UNDECIDED, VIOLATION]),
        ([flat(100).astype(np.uint8)] * 2, [UNDECIDED, VIOLATION]),
        ([flat(NAN)] * 2, [UNDECIDED, HEALTHY]),
        ([flat(0.5)[0]] * 2, [NOT_APPLICABLE] * 2),
        ([np.ones((10, 5))] * 2, [NOT_APPLICABLE] * 2),
        ([np.ones((0, 3, 2, 2))], [NOT_APPLICABLE]),
        ([1.0], [NOT_APPLICABLE]),
        ([TensorSummary(mean=3.0)], [NOT_APPLICABLE]),
        ([np.ones((20, 5000, 1, 1))], [NOT_APPLICABLE]),
    ],
)
def test_means_over_all_images(history: list[Any], expected: list[Outcome]) -> None:
    _, verdicts = judged(
        CheckInputImages(threshold_samples=20), [[image(value)] for value in history]
    )
    assert [verdict.outcome for verdict in verdicts] == expected


def test_workers_count_together_inputs_by_themselves() -> None:
    found = [
        image(flat(0.4), worker="worker_0"),
        image(flat(-0.4), worker="worker_1"),
        image(flat(0.0, 0.3), name="y"),
        image(flat(0.0, 0.3), name="y", worker="worker_1"),
    ]
    _, (verdict,) = judged(CheckInputImages(threshold_samples=20), [found])
    assert (verdict.tensor, verdict.reason) == ("y", Reason.ABOVE_THRESHOLD)
    assert verdict.detail == (
        "channel 1 of y has a mean of 0.3 over 20 samples, further from 0 than 0.2"
    )
    assert dict(verdict.evidence) == {"mean": 0.3, "channel": 1, "threshold_mean": 0.2}


def test_channels_last() -> None:
    value = np.moveaxis(flat(0.0, 0.5), 1, -1)
    _, (verdict,) = judged(
        CheckInputImages(threshold_samples=1, channel=-1), [[image(value, channel=-1)]]
    )
    assert verdict.evidence["channel"] == 1


def test_what_is_named_need_not_have_four_dimensions() -> None:
    rule = CheckInputImages(threshold_samples=1, regex="x")
    _, (verdict,) = judged(rule, [[image(np.ones((10, 5)))]])
    assert verdict.violation


def test_the_state_stays_small() -> None:
    rng = np.random.default_rng(0)
    steps = [
        [image(rng.random((4, 64, 1, 1)), name=f"input{at}_{each}") for each in range(3)]
        for at in range(50)
    ]
    state, _ = judged(CheckInputImages(), steps)
    assert len(msgspec.json.encode(state)) < 4096


def test_reads() -> None:
    assert CheckInputImages().reads().tensors == {
        "images": Read((Role.INPUT,), detail=Detail(channel_axis=1))
    }
    named = CheckInputImages(regex=".*input_0", channel=3).reads().tensors["images"]
    assert named == Read(regex=(".*input_0",), detail=Detail(channel_axis=3))


@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
def test_parameters_as_on_the_wire(profile: str) -> None:
    wire = {"threshold_mean": "0.3", "threshold_samples": "100", "regex": ".*x", "channel": "3"}
    expected = CheckInputImages(0.3, 100, ".*x", 3)
    assert build("CheckInputImages", wire, profile) == (expected, {})
    assert build("CheckInputImages", {}, profile)[0] == CheckInputImages(0.2, 500, None, 1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold_mean": "0"}, "threshold_mean is 0.0, but must be a number above 0"),
        ({"threshold_mean": "nan"}, "threshold_mean is nan"),
        ({"threshold_samples": "0"}, "threshold_samples is 0, but must be at least 1"),
        ({"channel": "rgb"}, "parameter channel: expected `int`"),
    ],
)
def test_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule) as caught:
        build("CheckInputImages", parameters)
    assert message in str(caught.value)
