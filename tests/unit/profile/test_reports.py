"""What ProfilerReport wrote for each rule, from the minutes of a machine run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tocsin.profile import (
    REPORTED,
    PandasFrame,
    ProfilerRun,
    reports_of,
    usage_of,
    write_amazon_files,
)
from tocsin.profile.reports import distance
from tocsin.report import report_on
from tocsin.tensors import IndexFile, LocalStorage, index_objects, open_storage, read_index
from tocsin_hooks.machine import Minute, write_minutes

from tests.profiler_files import MINUTE

KEYS = {"RuleTriggered", "Violations", "Details", "Datapoints", "RuleParameters"}
BOX = {"p25", "p50", "p75", "p95", "upper", "lower"}


def minute(gpu: float = 80.0, busiest: float = 50.0, other: float | None = None) -> Minute:
    series = {
        "gpu0/GPUUtilization": [gpu] * 118 + [math.nan, 100.0],
        "gpu0/GPUMemoryUtilization": [20.0] * 110 + [40.0] * 10,
        "cpu/CPUUtilization": [25.0] * 120,
        "cpu/busiest": [busiest] * 120,
        "cpu/I/OWaitPercentage": [0.0] * 120,
        "memory/MemoryUsedPercent": [9.0] * 120,
        "network/ReceiveBytesPerSecond": [2e6] * 120,
        "network/TransmitBytesPerSecond": [1e6] * 120,
    }
    if other is not None:
        series["gpu1/GPUUtilization"] = [other] * 120
    return Minute(
        60.0, series, {"TRAIN": [0.2] * 90 + [2.0] * 5, "EVAL": [1.0], "wait": [0.1] * 95}
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "profiler-output"
    busy, idle = minute(other=95.0), minute(gpu=5.0, busiest=95.0, other=95.0)
    alone = minute(gpu=5.0, busiest=95.0)
    write_minutes(str(folder), [{"a": busy, "b": minute()}, {"a": idle, "b": alone}])
    return folder


def minutes_in(run: Path) -> list[IndexFile]:
    storage = LocalStorage(run)
    return [read_index(storage, found) for found in index_objects(storage)]


def test_samples_of_a_node(run: Path) -> None:
    found = usage_of(minutes_in(run))
    assert list(found) == ["a", "b"]
    node = found["a"]
    assert (node.gpus, node.times.size, node.length) == (["gpu0", "gpu1"], 240, 120.0)
    assert node.times[[0, 1, 120]].tolist() == [0.0, 0.5, 60.0]
    assert np.isnan(node.series["gpu0"][118])
    assert node.means["network"].tolist() == [3e6, 3e6]
    assert node.loop == (0.0, 120.0)


def test_each_report_has_amazons_keys(run: Path) -> None:
    rule = {
        "Rule": "LowGPUUtilization",
        "RuleEvaluationStatus": "IssuesFound",
        "Violations": 3,
        "DataPoints": 7,
        "Parameters": {"threshold_p95": 70, "window": 500},
    }
    made = reports_of(minutes_in(run), [rule])
    assert set(made) == set(REPORTED)
    assert all(set(report) == KEYS for report in made.values())
    low = made["LowGPUUtilization"]
    assert (low["RuleTriggered"], low["Violations"], low["Datapoints"]) == (1, 3, 7)
    assert low["RuleParameters"] == "threshold_p95:70\nwindow:500"
    assert made["BatchSize"]["RuleTriggered"] == 0
    json.dumps(made, allow_nan=False)


def test_details(run: Path) -> None:
    made = {name: each["Details"] for name, each in reports_of(minutes_in(run), []).items()}
    assert set(made["BatchSize"]["a"]) == {"cpu", "gpu0", "gpu0_memory", "gpu1"}
    assert set(made["BatchSize"]["a"]["cpu"]) == BOX
    assert made["BatchSize"]["last_timestamp"] == 119_500_000
    assert set(made["LowGPUUtilization"]["b"]["gpu0"]) == {"gpu_max", "gpu_95", "gpu_5", *BOX}
    memory = made["GPUMemoryIncrease"]["a"]["gpu0"]
    assert set(memory) == {"increase", "gpu_max", "p05", *BOX}
    assert memory["increase"] == 20.0
    assert made["CPUBottleneck"]["low_gpu_utilization"] == 118
    assert made["CPUBottleneck"]["bottlenecks"]["60.000"] == {"GPUs": 1, "CPUs": 1}
    assert len(made["CPUBottleneck"]["bottlenecks"]) == 118  # of b: not all GPUs of a are low
    assert made["IOBottleneck"]["bottlenecks"] == {}
    balance = made["LoadBalancing"]["a"]
    assert len(balance["workloads"]["gpu0"]) == 49
    assert balance["distances"]["gpu0"]["gpu1"] == pytest.approx(math.sqrt(math.log(2)))
    assert made["MaxInitializationTime"] == {
        "step_num": {"first": 0, "last": 120_000_000},
        "job_start": 0.0,
        "job_end": 119.5,
    }
    usage = made["OverallSystemUsage"]
    assert set(usage) == {"Network", "GPU", "CPU", "CPU memory", "GPU memory", "I/O"}
    assert usage["Network"]["a"] == dict.fromkeys(("max", "p99", "p95", "p50", "min"), 3e6)
    phases = made["OverallFrameworkMetrics"]["phase"]
    assert phases["Step:ModeKeys.TRAIN"] == pytest.approx(100 * 28 / 60, rel=1e-3)
    assert sum(phases.values()) == pytest.approx(100)
    outliers = made["StepOutlier"]["step_details"]["a"]
    assert outliers["number_of_outliers"] == 10
    assert (len(outliers["probs"]), len(outliers["binedges"])) == (100, 101)
    assert outliers["step_numbers"][0] == "90"


def test_distances_of_histograms() -> None:
    one, other = np.array([4, 0, 0]), np.array([0, 2, 2])
    assert distance(one, one) == 0.0
    assert distance(one, other) == pytest.approx(math.sqrt(math.log(2)))  # nothing in common
    assert distance(one, np.zeros(3)) == 0.0


def test_amazons_files_are_the_run_again(run: Path, tmp_path: Path) -> None:
    minutes = [replace(each, step=MINUTE + each.step) for each in minutes_in(run)]
    storage = LocalStorage(tmp_path / "amazon")
    assert write_amazon_files(minutes, storage) == 8
    made = ProfilerRun(storage, now=lambda: 1e11)  # no timeline is waited for
    again = usage_of([read_index(made, found) for found in index_objects(made)])
    node, before = again["algo-1"], usage_of(minutes)["a"]
    assert node.series["gpu1"].tolist() == before.series["gpu1"].tolist()
    assert node.steps["TRAIN"].size == 2 * 95
    assert node.spent["TRAIN"] == pytest.approx(before.spent["TRAIN"], rel=1e-3)
    framework = PandasFrame(str(tmp_path / "amazon")).get_all_framework_metrics()
    assert framework["step"].max() == 2 * 95 - 1


def test_a_run_without_gpus_or_steps(tmp_path: Path) -> None:
    write_minutes(str(tmp_path), [Minute(60.0, {"cpu/CPUUtilization": [1.0] * 9}, {"TRAIN": []})])
    made = {name: each["Details"] for name, each in reports_of(minutes_in(tmp_path), []).items()}
    assert made["LowGPUUtilization"] == made["LoadBalancing"] == made["StepOutlier"] == {}
    assert made["MaxInitializationTime"]["step_num"] == {}
    assert made["OverallFrameworkMetrics"]["phase"] == {"others": 100.0}


def test_the_page_has_the_sections(run: Path) -> None:
    machine = report_on(open_storage(run)).machine
    assert machine is not None
    found = machine.profile
    assert found is not None
    assert found.job is not None
    assert (found.job.initialization, found.job.loop) == (0.0, 120.0)
    rows = {(each.node, each.resource): each for each in found.usage}
    assert rows["a", "network"].p95 == 3.0
    assert [(each.node, each.device) for each in found.boxes][:2] == [("a", "gpu0"), ("a", "gpu1")]
    assert [bars.title.partition(":")[0] for bars in found.workloads] == ["a, gpu0", "a, gpu1"]
    (none, low) = found.bottlenecks
    assert (low.low, low.cpu, low.io) == (0.4917, 0.4917, 0.0)
    assert (none.low, none.cpu) == (0.0, 0.0)
