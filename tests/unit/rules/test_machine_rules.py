"""The rules about a machine: each row is a history of minutes and whether the rule fires."""

from __future__ import annotations

from typing import Any

import pytest

from .judging import made
from .minutes import fires, history, judged, minute, tick, verdicts

IDLE_LOADER = {"wait": [0.5] * 30, "gpu0__GPUUtilization": 55.0}
IDLE = minute(**IDLE_LOADER)


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        ([IDLE] * 5, True),
        ([minute(wait=[0.5] * 30, gpu0__GPUUtilization=85.0)] * 5, False),  # prefetching hides it
        ([minute(wait=[0.5] * 30)] * 5, True),  # no GPU: the share alone
        ([minute(wait=[0.5] * 20, gpu0__GPUUtilization=55.0)] * 5, False),  # 0.17
        ([IDLE] * 4 + [minute(gpu0__GPUUtilization=55.0)], False),
        ([IDLE] * 4 + [minute(steps=(), **IDLE_LOADER)], False),
        (
            [IDLE] * 4 + [minute(steps=(), **IDLE_LOADER), IDLE],
            True,
        ),
        ([minute(steps=None, gpu0__GPUUtilization=55.0)] * 5, False),  # steps are not timed
    ],
)
def test_input_bottleneck(minutes: Any, expected: bool) -> None:
    assert fires(made("InputBottleneck"), minutes) is expected


@pytest.mark.parametrize(
    ("series", "cause"),
    [
        ({"cpu__busiest": 97.0}, "a core is busy 97 % of the time (preprocessing)"),
        ({"cpu__busiest": 97.0, "process__cpu": 90.0}, "(preprocessing)"),
        ({"cpu__busiest": 97.0, "process__cpu": 9.0}, "with other processes"),
        ({"cpu__busiest": 97.0, "cpu__I/OWaitPercentage": 60.0}, "slow storage"),
        ({"cpu__busiest": 30.0, "process__workers": [0.0]}, "too few loader workers; the training"),
    ],
)
def test_input_bottleneck_names_the_cause(series: Any, cause: str) -> None:
    (found,) = verdicts(made("InputBottleneck"), [minute(**IDLE_LOADER, **series)])
    assert cause in found.detail
    assert found.evidence["wait_share"] == 0.25


def utilized(above: int, of: int = 1200, low: float = 30.0) -> list[Any]:
    """Ten minutes with so many samples of 80, after a start that does not count."""
    samples = [80.0] * above + [low] * (of - above)
    ten = [minute(gpu0__GPUUtilization=samples[at::10]) for at in range(10)]
    return [minute(steps=(), gpu0__GPUUtilization=low)] * 5 + ten


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (utilized(59), True),
        (utilized(61), False),
        (utilized(0, low=0.0), False),  # not used at all
        ([minute(gpu0__GPUUtilization=30.0, gpu1__GPUUtilization=80.0)] * 15, False),
        ([minute(gpu0__GPUUtilization=30.0, gpu1__GPUUtilization=0.0)] * 15, True),
        ([minute(steps=(), gpu0__GPUUtilization=30.0, evaluation=[1.0])] * 15, False),
        ([minute(gpu0__GPUUtilization=30.0)] * 9, False),
        ([minute(steps=None, gpu0__GPUUtilization=30.0)] * 15, True),  # steps are not timed
    ],
)
def test_low_gpu_utilization(minutes: Any, expected: bool) -> None:
    assert fires(made("LowGPUUtilization"), minutes) is expected


@pytest.mark.parametrize(
    ("first", "second", "length", "expected"),
    [(0.0, 90.0, 10, True), (0.0, 90.0, 9, False), (2.0, 90.0, 10, False), (0.0, 15.0, 10, False)],
)
def test_gpu_not_used(first: float, second: float, length: int, expected: bool) -> None:
    minutes = [minute(gpu0__GPUUtilization=first, gpu1__GPUUtilization=second)] * length
    assert fires(made("GPUNotUsed"), minutes) is expected


@pytest.mark.parametrize(("used", "expected"), [(96.0, True), (95.0, False)])
def test_gpu_memory_near_limit(used: float, expected: bool) -> None:
    minutes = [minute(gpu0__MemoryUsedPercent=[50.0, used])]
    assert fires(made("GPUMemoryNearLimit"), minutes) is expected


def growing(per_minute: float, length: int, start: float = 40.0) -> list[float]:
    return [start + per_minute * at for at in range(length)]


@pytest.mark.parametrize(
    ("minima", "expected"),
    [
        (growing(0.8, 31), True),
        (growing(0.5, 31), False),
        (growing(0.8, 30), False),
        ([40.0 + 5 * (at % 5) for at in range(60)], False),  # a sawtooth
        ([40.0] * 5 + [46.0] * 40, False),  # grown, then flat
    ],
)
@pytest.mark.parametrize("series", ["memory__MemoryUsedPercent", "gpu0__MemoryUsedPercent"])
def test_memory_leak(minima: list[float], series: str, expected: bool) -> None:
    minutes = [minute(**{series: [least, least + 20.0]}) for least in minima]
    assert fires(made("MemoryLeak"), minutes) is expected


def five(*slow: tuple[int, float], usual: int, of: float = 0.1) -> list[Any]:
    """Steps over five minutes: so many of the usual length, and so many slow ones."""
    steps = [of] * usual + [seconds for count, seconds in slow for _ in range(count)]
    return [minute(steps=steps[at::5]) for at in range(5)]


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (five((12, 1.0), usual=190), True),
        (five((10, 1.0), usual=192), False),  # it must exceed ten
        (five((20, 1.0), usual=182), True),
        (five((20, 1.0), usual=180), True),  # where a standard deviation is blind
        (five((25, 1.0), usual=175), True),
        (five((12, 0.01), usual=190, of=1.0), False),  # only slow ones count
        (five((50, 0.2), usual=150), False),  # each fourth step does twice the work
        (five((9, 5.0), usual=300), False),  # the end of an epoch
        (five((30, 0.3), usual=8000), False),  # too little time to matter
        (five(usual=40), False),
    ],
)
def test_step_time_outlier(minutes: Any, expected: bool) -> None:
    assert fires(made("StepTimeOutlier"), minutes) is expected


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ({"process__runqueue": 40.0}, False),  # 120 s, and the outliers took 112 s too long
        ({"process__runqueue": 33.0}, False),  # of 275 s in all 13 s are left: 4.8 %
        ({"process__runqueue": 31.0}, True),
        ({"process__runqueue": 30.0, "cpu__StealPercentage": 4.0}, False),
    ],
)
def test_steps_that_others_interrupt_are_no_outliers(series: Any, expected: bool) -> None:
    steps = [0.1] * 1500 + [1.0] * 125
    minutes = [minute(steps=steps[at::5], **series) for at in range(5)]
    assert fires(made("StepTimeOutlier"), minutes) is expected
    says = verdicts(made("StepTimeOutlier"), minutes)[-1].detail
    assert ("for a core" in says) is not expected


def test_many_durations_fit_into_the_state() -> None:
    """Of thousands of steps of all lengths only counts are kept."""
    rule = made("StepTimeOutlier")
    steps = history(rule, [minute(steps=[1.0001**at for at in range(60000)])] * 6)
    state: Any = {}
    for step in steps:
        state, _ = rule.evaluate(state, step)
    assert len(str(state)) < 12_000


@pytest.mark.parametrize(
    ("now", "length", "expected"),
    [(0.27, 5, True), (0.26, 5, False), (0.4, 4, False)],
)
def test_slower_than_before(now: float, length: int, expected: bool) -> None:
    minutes = [minute(steps=[0.2] * 50)] * 10 + [minute(steps=[now] * 50)] * length
    back = [minute(steps=[0.2] * 50)] * 3
    assert fires(made("SlowerThanBefore"), minutes + back) is expected


def nodes(*seconds: float, kind: str = "forward") -> dict[str, Any]:
    return {f"node_{at}": minute(**{kind: [each] * 9}) for at, each in enumerate(seconds)}


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        ([nodes(1, 1, 1, 1.4)] * 3, True),
        ([nodes(1, 1, 1, 1.4)] * 2, False),
        ([nodes(1, 1, 1, 1.3)] * 3, False),
        ([nodes(2, 2, kind="steps")] * 3, False),  # they wait for each other
        ([nodes(2, 3, kind="steps")] * 3, True),
        ([nodes(1, 1, 1.4) | {"node_9": minute(steps=None)}] * 3, True),  # one without timings
    ],
)
def test_straggling_node(minutes: Any, expected: bool) -> None:
    assert fires(made("StragglingNode"), minutes) is expected


@pytest.mark.parametrize(
    ("slow", "length", "expected"), [(30, 3, True), (30, 2, False), (24, 3, False)]
)
def test_gpu_throttled(slow: int, length: int, expected: bool) -> None:
    slowdown = [1.0] * slow + [0.0] * (120 - slow)
    minutes = [minute(gpu3__Slowdown=slowdown, gpu3__Temperature=91.0)] * length
    assert fires(made("GPUThrottled"), minutes) is expected


@pytest.mark.parametrize(
    ("series", "says"),
    [
        ({"gpu1__XID": 79.0}, "gpu1 of node_0: the driver reported XID 79"),
        ({"gpu1__ECCUncorrectable": [0.0, 2.0]}, "gpu1 of node_0: 2 memory errors"),
        ({"gpu1__Lost": 1.0}, "gpu1 of node_0: it no longer answers"),
        ({}, ""),
    ],
)
def test_gpu_errors(series: Any, says: str) -> None:
    (found,) = verdicts(made("GPUErrors"), [minute(gpu0__GPUUtilization=50.0, **series)])
    assert found.violation is bool(says)
    assert says in found.detail


def hang(median: float, minutes: int, **series: Any) -> list[Any]:
    steps = [median] * max(1, int(60 / median))
    return [minute(steps=steps, gpu0__Power=300.0)] * 5 + [minute(steps=(), **series)] * minutes


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (hang(2, 3), True),
        (hang(2, 2), False),
        (hang(40, 7), True),
        (hang(40, 6), False),
        (hang(2, 3, evaluation=[1.0] * 9), False),
        ([minute(steps=())] * 30, False),  # before the first step
    ],
)
def test_training_hung(minutes: Any, expected: bool) -> None:
    assert fires(made("TrainingHung"), minutes) is expected


@pytest.mark.parametrize(
    ("series", "says"),
    [
        ({"gpu0__GPUUtilization": 100.0, "gpu0__Power": 90.0}, "wait in a collective operation"),
        ({"gpu0__GPUUtilization": 100.0, "gpu0__Power": 290.0}, "its GPUs compute"),
        ({"cpu__CPUUtilization": 3.0}, "its processors are 3 % utilized"),
    ],
)
def test_a_hang_says_what_the_machine_does(series: Any, says: str) -> None:
    *_, found = verdicts(made("TrainingHung"), hang(2, 3, **series))
    assert says in found.detail


@pytest.mark.parametrize(("silent", "expected"), [(601.0, True), (600.0, False)])
def test_a_machine_that_falls_silent(silent: float, expected: bool) -> None:
    rule = made("TrainingHung")
    steps = history(rule, [minute()] * 3)
    *_, found = judged(rule, [*steps, tick(steps[-1], silent)])
    assert found.violation is expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [(21, False), (22, True)],  # 20 and 21 minutes after the first one
)
def test_max_initialization_time(before: int, expected: bool) -> None:
    assert fires(made("MaxInitializationTime"), [minute(steps=())] * before) is expected


def test_a_first_step_ends_the_initialization() -> None:
    minutes = [minute(steps=())] * 5 + [minute()] + [minute(steps=())] * 60
    assert not fires(made("MaxInitializationTime"), minutes)
