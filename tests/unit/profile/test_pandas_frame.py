"""The tables that notebooks use: as smdebug has them, of Amazon's files and of a machine run."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tocsin.profile import (
    MergedTimeline,
    MergeUnit,
    PandasFrame,
    PandasFrameAnalysis,
    Resource,
    StatsBy,
)
from tocsin_hooks.machine import Minute, write_minutes

from tests.notebook import Notebook
from tests.profiler_files import (
    MINUTE,
    lines,
    steps,
    system_key,
    timeline,
    timeline_key,
    write,
)
from tests.viewer import opened

PID = {"pid": 7}
SECOND = 1_000_000
TRAIN, EVAL = "Step:ModeKeys.TRAIN", "Step:ModeKeys.EVAL"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three minutes of a node with a GPU, and two phases of training with an evaluation between."""
    for number in range(3):
        text = lines(
            MINUTE + number, cores=(20.0 + number, 40.0), gpus=(80.0,), interval=5, ticks=12
        )
        write(tmp_path, system_key(MINUTE + number), text)
    loader = {**PID, "worker_id": 3, "num_workers": 2, "pin_memory": True}
    events = [
        *steps([10, 12, 14], 1.0),
        ("Forward", "Net", 10.1, 0.4, {**PID, "layer_name": "fc"}),
        ("DataLoaderIter", "GetNext", 11.5, 0.3, loader),
        *steps([30, 33], 1.5, "EVAL"),
    ]
    write(tmp_path, timeline_key(60 * MINUTE + 50), timeline(events))
    write(tmp_path, timeline_key(60 * MINUTE + 170), timeline(steps([130], 1.0)))
    return tmp_path


def test_system_metrics(folder: Path) -> None:
    table = PandasFrame(str(folder)).get_all_system_metrics()
    assert list(table.columns) == [
        "timestamp", "timestamp_us", "value", "system_metric", "dimension", "nodeID", "type"
    ]  # fmt: skip
    assert len(table) == 3 * 12 * 14
    core = table[table["dimension"] == "CPUUtilization"].iloc[0]
    assert [*core] == [
        "2026-10-03T04:00:00:011000", 11_000, 20.0, "cpu0", "CPUUtilization", "algo-1", "cpu"
    ]  # fmt: skip
    chosen = PandasFrame(str(folder)).get_all_system_metrics(["gpu0", "IOPS"])
    assert set(chosen["system_metric"]) == {"gpu0", "IOPS"}


def test_framework_metrics(folder: Path) -> None:
    frame = PandasFrame(str(folder), use_in_memory_cache=True)
    table = frame.get_all_framework_metrics()
    assert list(table.columns) == [
        "start_time", "end_time", "start_time_us", "end_time_us", "tid", "pid",
        "framework_metric", "step", "bytes", "process", "nodeID",
    ]  # fmt: skip
    assert [*table.iloc[0]] == [
        "2026-10-03T04:00:10:000000", "2026-10-03T04:00:11:000000", 10 * SECOND, 11 * SECOND,
        -1, 7, TRAIN, 0, -1, TRAIN, "algo-1-7",
    ]  # fmt: skip
    (forward,) = frame.get_all_framework_metrics(["Forward"])["framework_metric"]
    assert forward == "fc"
    assert len(frame.get_all_framework_metrics([EVAL])) == 2


def test_loaders_are_found_by_pattern(folder: Path) -> None:
    table = PandasFrame(str(folder)).get_all_dataloader_metrics(["DataLoader.*"])
    (row,) = table.to_dict("records")
    assert list(row)[4:] == [
        "duration_us", "pid", "framework_metric", "step", "worker_id", "num_workers",
        "pin_memory", "process", "node_id",
    ]  # fmt: skip
    assert (row["duration_us"], row["worker_id"], row["pin_memory"]) == (300_000, 3, "True")


def test_a_time_and_a_step(folder: Path) -> None:
    frame = PandasFrame(str(folder))
    begin = 60 * SECOND * MINUTE
    system, framework = frame.get_profiler_data_by_time(begin + 30 * SECOND, begin + 60 * SECOND)
    assert system["timestamp_us"].between(30 * SECOND, 60 * SECOND).all()
    assert set(framework["framework_metric"]) == {EVAL}
    _, both = frame.get_profiler_data_by_time(begin, begin, cache_metrics=True)
    assert both.empty
    system, framework = frame.get_profiler_data_by_step(1, 2)
    assert set(framework["step"]) == {1, 2}
    assert system["timestamp_us"].between(12 * SECOND, 34.5 * SECOND).all()


def test_what_went_on_at_a_time(folder: Path) -> None:
    frame = PandasFrame(str(folder))
    at = "2026-10-03T04:00:10:200000"
    assert frame.convert_datetime_to_timestamp(at) == 60 * SECOND * MINUTE + 10_200_000
    phases, names, training = frame.get_framework_metrics_by_timesteps([at, at])
    assert (phases, names) == ({"Forward": 1.0}, {"Net": 800_000})
    assert training == {TRAIN: 2 * SECOND}
    phases, names = frame.get_framework_metrics_by_begin_and_end_timesteps(
        ["2026-10-03T04:00:10:000000"], ["2026-10-03T04:00:12:000000"]
    )
    assert phases == {"Forward": 1.0, "DataLoaderIter": 0.75}
    assert names == {"Net": 1.0, "GetNext": 0.75}


def test_statistics(folder: Path) -> None:
    frame = PandasFrame(str(folder))
    found = PandasFrameAnalysis(frame.get_all_system_metrics(), frame.get_all_framework_metrics())
    job = found.get_job_statistics()
    assert (job["job_duration"], job["initialization"]) == (175_005_000, 10 * SECOND)
    assert job["training_loop_end"] == "2026-10-03T04:02:11:000000"
    assert sum(job[f"{part}_%"] for part in ("initialization", "training_loop", "finalization")) \
        == pytest.approx(100, abs=0.1)  # fmt: skip
    by_step = found.get_step_statistics(StatsBy.PROCESS).set_index("process")
    assert [*by_step.loc["Forward"]] == [400_000.0] * 6
    assert by_step.loc[EVAL, "duration_p95_us"] == 1.5 * SECOND
    gpu = found.get_utilization_stats(Resource.GPU).iloc[0]
    assert [*gpu[["Resource", "nodeID", "utilization_max"]]] == ["gpu", "algo-1", 80.0]
    usage = found.get_device_usage_stats().set_index("type")
    assert usage.loc["cpu"][(10, 90)] == 72
    with pytest.raises(ValueError, match="is a pair"):
        found.get_device_usage_stats(utilization_ranges=[(1,)])  # type: ignore[list-item]


def test_phases_of_the_training(folder: Path) -> None:
    frame = PandasFrame(str(folder))
    found = PandasFrameAnalysis(frame.get_all_system_metrics(), frame.get_all_framework_metrics())
    table = found.get_training_phase_intervals()
    between = f"Between {EVAL} and {TRAIN}"
    assert [*table["phase"]] == [
        f"Before {TRAIN}", TRAIN, between, EVAL, between, TRAIN, f"After {TRAIN}"
    ]  # fmt: skip
    assert [*table.loc[1]][:2] == [10 * SECOND, 15 * SECOND]
    by_phase = found.get_utilization_stats(Resource.CPU, StatsBy.TRAINING_PHASE)
    assert list(by_phase.columns)[:3] == ["Resource", "Training_phase", "nodeID"]
    assert EVAL in set(by_phase["Training_phase"])
    with pytest.raises(ValueError, match="no step of"):
        found.get_training_phase_intervals("Step:ModeKeys.PREDICT")


@pytest.mark.parametrize("unit", [MergeUnit.TIME, "step"])
def test_a_merged_timeline_opens_in_viewers(folder: Path, tmp_path: Path, unit: Any) -> None:
    begin = 60 * SECOND * MINUTE
    times = (begin, begin + 60 * SECOND) if unit is MergeUnit.TIME else (0, 3)
    out = tmp_path / "out"
    name = MergedTimeline(str(folder), output_directory=str(out)).merge_timeline(
        *times, unit=unit, sys_metrics_filter={"lowgpu": (85,)}
    )
    rows = json.loads(Path(name).read_text())
    assert opened(rows)
    assert all(row["pid"] >= 0 for row in rows)
    kinds = {row["ph"] for row in rows}
    assert kinds == {"M", "X", "C", "i"}
    pids = {row["args"]["name"]: row["pid"] for row in rows if row["name"] == "process_name"}
    assert pids[TRAIN] < pids["Forward"] < pids["DataLoaderIter"]


def test_a_machine_run_has_the_same_tables(tmp_path: Path) -> None:
    minute = Minute(60.0, {"gpu0/GPUUtilization": [50.0] * 120, "cpu/CPUUtilization": [25.0] * 120,
                           "memory/MemoryUsedPercent": [9.0] * 120, "gpu0/Power": [300.0]},
                    {"TRAIN": [0.5] * 100, "EVAL": [1.0]})  # fmt: skip
    write_minutes(str(tmp_path / "profiler-output"), [minute] * 2)
    frame = PandasFrame(str(tmp_path / "profiler-output"))
    system, framework = frame.get_all_system_metrics(), frame.get_all_framework_metrics()
    assert set(system["type"]) == {"gpu", "cpu", "memory"}
    assert len(system) == 2 * (120 + 120 + 1)
    assert (framework["framework_metric"] == TRAIN).sum() == 200
    assert framework["step"].max() == 199
    job = PandasFrameAnalysis(system, framework).get_job_statistics()
    assert 119 * SECOND < job["job_duration"] < 120 * SECOND


def test_without_pandas_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="need pandas: pip install"):
        PandasFrame(str(tmp_path))
    assert importlib.import_module("tocsin.profile").PandasFrameAnalysis


def test_an_empty_folder(tmp_path: Path) -> None:
    frame = PandasFrame(str(tmp_path))
    assert frame.get_all_system_metrics().empty
    assert frame.get_all_framework_metrics().empty
    assert frame.get_framework_metrics_by_timesteps() == ({}, {}, {})


def test_a_notebook_of_amazons_runs_with_other_imports(folder: Path) -> None:
    """As its documentation goes through a job: tables, then where GPUs idle, then why."""
    book = Notebook(folder)
    imports = """
from smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
from smdebug.profiler.analysis.utils.pandas_data_analysis import (
    PandasFrameAnalysis, Resource, StatsBy
)
from smdebug.profiler.analysis.utils.merge_timelines import MergedTimeline
"""
    for module in ("profiler_data_to_pandas", "pandas_data_analysis", "merge_timelines"):
        imports = imports.replace(f"smdebug.profiler.analysis.utils.{module}", "tocsin.profile")
    book.cells(
        imports,
        "pf = PandasFrame(str(run), scan_interval=50000000000)",
        "system_metrics_df = pf.get_all_system_metrics()\n"
        "framework_metrics_df = pf.get_all_framework_metrics(\n"
        "    selected_framework_metrics=['Step:ModeKeys.TRAIN', 'Step:ModeKeys.EVAL'])",
        "pf_analysis = PandasFrameAnalysis(system_metrics_df, framework_metrics_df)",
        "job = pf_analysis.get_job_statistics()",
        "steps = pf_analysis.get_step_statistics(by=StatsBy.TRAINING_PHASE)",
        "usage = pf_analysis.get_utilization_stats(resource=[Resource.CPU, Resource.GPU],\n"
        "                                          by=StatsBy.TRAINING_PHASE)",
        "intervals = pf_analysis.get_training_phase_intervals()",
        "gpu = system_metrics_df[system_metrics_df['dimension'] == 'GPUUtilization']\n"
        "low = gpu[gpu['value'] < 90]['timestamp']\n"
        "by_phase, by_event, training = pf.get_framework_metrics_by_timesteps(low[:20])",
        "path = MergedTimeline(str(run), output_directory=str(run / 'merged')).merge_timeline(\n"
        "    pf.start_time, pf.start_time + 60_000_000)",
    )
    assert len(book.names["steps"]) == 2
    assert book.names["training"] == {TRAIN: SECOND, EVAL: 1.5 * SECOND}
    assert Path(book.names["path"]).exists()
