"""Amazon's profiler rules by their examples: what Amazon's computed, and what ours says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tocsin.model import Outcome
from tocsin.rules import build, rule_names

from . import amazons_profiler as amazons
from .minutes import minute, verdicts

TWELVE = {
    "BatchSize": "cpu_threshold_p95=70 gpu_threshold_p95=70 gpu_memory_threshold_p95=70 "
    "patience=1000 window=500",
    "CPUBottleneck": "threshold=50 gpu_threshold=10 cpu_threshold=90 patience=1000",
    "Dataloader": "min_threshold=70 max_threshold=200 patience=10",
    "GPUMemoryIncrease": "increase=5 patience=1000 window=10",
    "IOBottleneck": "threshold=50 gpu_threshold=10 io_threshold=50 patience=1000",
    "LoadBalancing": "threshold=0.2 patience=1000",
    "LowGPUUtilization": "threshold_p95=70 threshold_p5=10 window=500 patience=1000",
    "MaxInitializationTime": "threshold=20",
    "OverallFrameworkMetrics": "",
    "OverallSystemUsage": "",
    "ProfilerReport": "scan_interval_us=60000000",
    "StepOutlier": "stddev=3 n_outliers=10",
}
SECTIONS = {"OverallFrameworkMetrics", "OverallSystemUsage", "ProfilerReport"}


def amazons_rule(name: str, **parameters: Any) -> Any:
    """The rule with Amazon's defaults."""
    return build(name, parameters, "sagemaker")[0]


def fires(rule: Any, minutes: Any) -> bool:
    return any(found.violation for found in verdicts(rule, minutes))


@pytest.mark.parametrize("name", TWELVE)
def test_names_and_defaults_are_those_of_the_service(name: str) -> None:
    rule = amazons_rule(name)
    for assignment in TWELVE[name].split():
        parameter, _, value = assignment.partition("=")
        assert getattr(rule, parameter) == float(value)
    assert (name in rule_names("sagemaker", "machine")) == (name not in SECTIONS)
    assert rule.about == "machine"


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_sections_of_the_report_never_fire(name: str) -> None:
    found = verdicts(amazons_rule(name), [minute(gpu0__GPUUtilization=0.0)] * 3)
    assert {each.outcome for each in found} == {Outcome.HEALTHY}


def of_gpus(gpus: Sequence[Sequence[float]], **series: Any) -> Any:
    named: dict[str, Any] = {f"gpu{at}__GPUUtilization": values for at, values in enumerate(gpus)}
    return minute(**named, **series)


IDLE_AND_BUSY = [5.0] * 6 + [80.0] * 5


@pytest.mark.parametrize(
    ("gpus", "cores", "patience", "historic", "ours"),
    [
        ([IDLE_AND_BUSY], [[95.0] * 11, [20.0] * 11], 10, True, True),
        ([[5.0] * 5 + [80.0] * 6], [[95.0] * 11, [20.0] * 11], 10, False, False),
        ([[10.0] * 11], [[95.0] * 11], 10, False, False),
        ([[5.0] * 11], [[90.0] * 11], 10, False, False),
        ([IDLE_AND_BUSY], [[95.0] * 11], 11, False, False),
        ([[0.0] * 11, *[[99.0] * 11] * 7], [[95.0] * 11, *[[3.0] * 11] * 31], 10, True, False),
    ],
)
def test_cpu_bottleneck(gpus: Any, cores: Any, patience: int, historic: bool, ours: bool) -> None:
    assert amazons.bottleneck(gpus, cores, patience, gpu=10, core=90) is historic
    busiest = [max(each) for each in zip(*cores, strict=True)]
    rule = amazons_rule("CPUBottleneck", patience=patience)
    assert fires(rule, [of_gpus(gpus, cpu__busiest=busiest)]) is ours


@pytest.mark.parametrize(
    ("gpu", "wait", "limit", "expected"),
    [
        (IDLE_AND_BUSY, 60.0, 10, True),
        (IDLE_AND_BUSY, 50.0, 10, False),
        ([40.0] * 11, 60.0, 10, False),
        ([40.0] * 11, 60.0, 70, True),  # the default of Amazon's documents
    ],
)
def test_io_bottleneck(gpu: Any, wait: float, limit: int, expected: bool) -> None:
    assert amazons.bottleneck([gpu], [[wait] * 11], 10, gpu=limit, core=50) is expected
    rule = amazons_rule("IOBottleneck", patience=10, gpu_threshold=limit)
    series: dict[str, Any] = {"cpu__I/OWaitPercentage": [wait] * 11}
    assert fires(rule, [of_gpus([gpu], **series)]) is expected


def test_each_machine_has_its_own_patience() -> None:
    rule = amazons_rule("CPUBottleneck", patience=10)
    one = of_gpus([[5.0] * 8], cpu__busiest=[95.0] * 8)
    (found,) = verdicts(rule, [{"algo-1": one, "algo-2": one}])
    assert found.outcome is Outcome.UNDECIDED  # 16 samples, and 8 of each machine
    assert fires(rule, [{"algo-1": one, "algo-2": one}] * 2)


def step_from(low: float, high: float, before: int = 20, after: int = 30) -> list[float]:
    return [low] * before + [high] * after


@pytest.mark.parametrize(
    ("values", "parameters", "historic", "ours"),
    [
        (step_from(20, 44), {}, False, 1),
        (step_from(20, 45), {}, False, 1),
        (step_from(20, 46), {}, True, 1),
        (step_from(0, 100), {}, True, 1),
        ([float(at) for at in range(100)], {}, False, 1),
        ([at / 10 for at in range(1000)], {}, False, 0),
        (
            step_from(0, 100, 1000, 1000),
            {"window": 500, "increase": 10, "patience": 0},
            False,
            1,
        ),
        (step_from(20, 46), {"patience": 1000}, False, 0),
    ],
)
def test_gpu_memory_increase(values: Any, parameters: Any, historic: bool, ours: int) -> None:
    known = {"increase": 5, "window": 10, "patience": 10, **parameters}
    if known["window"] == 10:
        assert amazons.memory_increase(values, **known) is historic
    else:  # the largest that its windows can differ by, of a step of 100
        assert 2 * 100 / known["window"] < known["increase"]
    rule = amazons_rule("GPUMemoryIncrease", **known)
    parts = [values[at : at + 100] for at in range(0, len(values), 100)]
    found = verdicts(rule, [minute(gpu0__GPUMemoryUtilization=part) for part in parts])
    assert sum(each.violation for each in found) == ours


def test_memory_in_use_counts_where_it_is_known() -> None:
    rule = amazons_rule("GPUMemoryIncrease", patience=10)
    steady: dict[str, Any] = {"gpu0__GPUMemoryUtilization": step_from(0, 90, 60, 60)}
    assert fires(rule, [minute(**steady)])
    assert not fires(rule, [minute(**steady, gpu0__MemoryUsedPercent=40.0)] * 2)
    used = [minute(gpu0__MemoryUsedPercent=percent) for percent in (40.0, 47.0)]
    assert fires(rule, used)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([60.0] * 19 + [95.0], True),
        ([60.0] * 18 + [95.0] * 2, False),
        ([95.0] * 18 + [0.0] * 2, True),
        ([95.0] * 19 + [0.0], False),
        ([70.0] * 20, False),
    ],
)
def test_low_gpu_utilization(values: Any, expected: bool) -> None:
    assert amazons.low_utilization(values, window=20, patience=10) is expected
    rule = amazons_rule("LowGPUUtilization", window=20, patience=10)
    assert fires(rule, [minute(gpu0__GPUUtilization=values)]) is expected


@pytest.mark.parametrize(("points", "expected"), [(1000, False), (1001, True)])
def test_low_gpu_utilization_has_patience(points: int, expected: bool) -> None:
    values = [0.0] * points
    assert amazons.low_utilization(values, window=500, patience=1000) is expected
    parts = [minute(gpu0__GPUUtilization=values[at : at + 120]) for at in range(0, points, 120)]
    assert fires(amazons_rule("LowGPUUtilization"), parts) is expected


def test_low_gpu_utilization_leaves_out_pauses_and_gpus_that_are_not_used() -> None:
    rule = amazons_rule("LowGPUUtilization", window=240, patience=100)
    busy, pause = [95.0] * 120, [0.0] * 120
    assert amazons.low_utilization(busy + pause, window=240, patience=100)
    trained, paused = (
        minute(steps=steps, gpu0__GPUUtilization=values)
        for steps, values in (((0.5,) * 50, busy), ((), pause))
    )
    assert not fires(rule, [trained, paused] * 3)
    assert amazons.low_utilization(pause * 2, window=240, patience=100)
    assert not fires(rule, [of_gpus([busy, pause])] * 3)
    assert fires(rule, [of_gpus([pause, pause])] * 3)


@pytest.mark.parametrize(
    ("cpu", "memory", "points", "expected"),
    [
        (50.0, 50.0, 12, True),
        (50.0, 80.0, 12, False),
        (50.0, 50.0, 10, False),
        (70.0, 50.0, 12, False),
    ],
)
def test_batch_size(cpu: float, memory: float, points: int, expected: bool) -> None:
    series: dict[str, Any] = {
        "cpu__CPUUtilization": [cpu] * points,  # of two cores at 50, or at 100 and 0
        "cpu__busiest": [100.0] * points,
        "gpu0__GPUUtilization": [50.0] * points,
        "gpu0__GPUMemoryUtilization": [memory] * points,
    }
    rule = amazons_rule("BatchSize", window=10, patience=10)
    assert fires(rule, [minute(**series)]) is expected
    used = minute(**series, gpu0__MemoryUsedPercent=[85.0] * points)
    assert not fires(rule, [used])  # a larger batch would not fit


@pytest.mark.parametrize(
    ("durations", "historic", "ours"),
    [
        ([0.1] * 190 + [1.0] * 12, True, True),
        ([0.1] * 192 + [1.0] * 10, False, False),
        ([0.1] * 182 + [1.0] * 20, True, True),
        ([0.1] * 180 + [1.0] * 20, False, True),
        ([0.1] * 175 + [1.0] * 25, False, True),
        ([1.0] * 190 + [0.01] * 12, False, False),
        ([0.1] * 85 + [1.0] * 15, False, False),
    ],
)
def test_step_outlier(durations: Any, historic: bool, ours: bool) -> None:
    assert amazons.step_outlier(durations) is historic
    mixed = durations[::2], durations[1::2]
    assert fires(amazons_rule("StepOutlier"), [minute(steps=each) for each in mixed]) is ours


@pytest.mark.parametrize(
    ("means", "ours"),
    [((0.0, 90.0), True), ((90.0, 70.0), False), ((95.0, 60.0, 95.0, 95.0), True)],
)
def test_load_balancing(means: Any, ours: bool) -> None:
    gpus = [[mean] * 120 for mean in means]
    assert not amazons.load_balancing(gpus, 0.2)
    rule = amazons_rule("LoadBalancing", patience=100)
    every = of_gpus([[50.0] * 120 for _ in means])  # all were used
    assert fires(rule, [every, *[of_gpus(gpus)] * 5]) is ours
    assert not fires(rule, [every, *[of_gpus(gpus)] * 4])
    assert not fires(amazons_rule("LoadBalancing"), [every, *[of_gpus(gpus)] * 5])  # 720 samples


def test_load_balancing_leaves_gpus_alone_that_were_never_used() -> None:
    gpus = [[0.0] * 120, [90.0] * 120, [88.0] * 120]
    assert not fires(amazons_rule("LoadBalancing", patience=100), [of_gpus(gpus)] * 6)


@pytest.mark.parametrize(
    ("workers", "seconds", "expected"),
    [(1, 12, True), (1, 10, False), (5, 12, True), (6, 12, False), (16, 12, False), (17, 12, True)],
)
def test_dataloader(workers: int, seconds: int, expected: bool) -> None:
    assert amazons.dataloader([workers] * seconds, cores=8) is expected
    rule = amazons_rule("Dataloader")
    series: dict[str, Any] = {"loader__workers": [float(workers)] * seconds, "cpu__cores": [8.0]}
    assert fires(rule, [minute(**series)]) is expected
    assert not fires(rule, [minute(**series, wait=[0.1] * 10)])  # it waits 2 % of the time
    assert fires(rule, [minute(**series, wait=[0.1] * 60)]) is expected
