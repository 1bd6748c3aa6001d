"""The files of Amazon's profiler as a machine run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from tocsin.evaluation import check, document
from tocsin.profile import ProfilerRun, named_as_run, open_run
from tocsin.report import machine_of
from tocsin.tensors import (
    IndexFile,
    LocalStorage,
    NotFound,
    Object,
    index_at,
    index_key,
    index_objects,
    inline_value,
    read_collections,
    read_end,
    read_index,
)
from tocsin.watch import to_watch
from tocsin_hooks.machine import Minute, write_minutes

from tests.profiler_files import (
    MINUTE,
    Event,
    lines,
    steps,
    system_key,
    timeline,
    timeline_key,
    write,
)

BEGIN = 60 * MINUTE


def ended(folder: Path) -> None:
    write(folder, "system/training_job_end.ts", "")


def minutes(run: Any) -> list[IndexFile]:
    return [read_index(run, found) for found in index_objects(run)]


def means(minute: IndexFile) -> dict[str, float | None]:
    return {entry.name: entry.summary.mean for entry in minute.entries if entry.summary}


def loader(start: float, seconds: float, pid: int) -> Event:
    return "DataLoaderIter", "DataLoaderIter::GetNext", start, seconds, {"pid": pid}


@pytest.fixture
def run(tmp_path: Path) -> ProfilerRun:
    """Two minutes of a node: steps of 0.5 s with waits of 0.25 s in the first 30 s of each."""
    folder = tmp_path / "profiler-output"
    for at in range(2):
        write(folder, system_key(MINUTE + at), lines(MINUTE + at, gpus=[30.0], activity=5.0))
    begins = [60.0 * minute + step for minute in range(2) for step in range(30)]
    waits = [loader(start + 0.6, 0.25, pid) for start in begins for pid in (8, 9)]
    both = sorted([*steps(begins, 0.5), *waits], key=lambda event: event[2])
    for at in range(3):  # files close when they close, and not with a minute
        part = [event for event in both if at * 40 <= event[2] < (at + 1) * 40]
        end = BEGIN + part[-1][2] + part[-1][3]
        write(folder, timeline_key(end), timeline(part))
    ended(folder)
    found = open_run(str(folder))
    assert isinstance(found, ProfilerRun)
    return found


def test_a_minute_has_the_series_of_our_hook(run: ProfilerRun) -> None:
    first, second = minutes(run)
    assert (first.step, first.worker, second.step) == (MINUTE, "algo-1", MINUTE + 1)
    assert means(first) == pytest.approx(
        {
            "machine/minute": None,
            "memory/MemoryUsedPercent": 12.5,
            "i/o/IOPS": 10.0,
            "i/o/ReadThroughputInBytesPerSecond": 10.0,
            "i/o/WriteThroughputInBytesPerSecond": 10.0,
            "cpu/CPUUtilization": 30.0,
            "cpu/busiest": 40.0,
            "cpu/cores": 2.0,
            "cpu/I/OWaitPercentage": 0.0,
            "network/ReceiveBytesPerSecond": 5.0,
            "network/TransmitBytesPerSecond": 5.0,
            "gpu0/GPUUtilization": 30.0,
            "gpu0/GPUMemoryUtilization": 5.0,
            "loader/workers": 2.0,
            "step/TRAIN": 0.5,
            "step/wait": 0.25,
        }
    )
    for minute in (first, second):
        step, gpu = minute.entry("step/TRAIN"), minute.entry("gpu0/GPUUtilization")
        assert step is not None
        assert step.summary is not None
        assert step.summary.size == 30
        assert gpu is not None
        assert inline_value(gpu) == pytest.approx([30.0] * 120)
        length = minute.entry("machine/minute")
        assert length is not None
        assert length.summary is not None
        assert (length.summary.max, length.summary.size) == (pytest.approx(60.0, abs=0.1), 0)


def test_rules_and_reports_take_it(run: ProfilerRun) -> None:
    rule = {"rule": "InputBottleneck", "for_steps": 1}
    found = document(check(run, to_watch({"rules": [rule]}))[0])
    assert found["workers"] == ["algo-1"]
    assert [each["RuleEvaluationStatus"] for each in found["rules"]] == ["IssuesFound"]
    machine = machine_of(run, found)
    assert machine is not None
    assert machine.nodes == ["algo-1"]
    assert "Half of the steps took at most 0.5 s" in machine.sentence


def test_a_run_grows_with_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "profiler-output"
    now = time.time()
    for at in range(4):
        write(folder, system_key(MINUTE + at), lines(MINUTE + at, ticks=4))
    write(folder, timeline_key(BEGIN + 100), timeline(steps([99.0], 0.5)))
    there = [MINUTE, MINUTE + 1, MINUTE + 2, MINUTE + 3]

    def shown(seconds: float, after: int = -1) -> list[int]:
        found = ProfilerRun(LocalStorage(folder), now=lambda: now + seconds)
        return [int(item.key[16:28]) for item in index_objects(found, after)]

    assert shown(0.0) == there[:1]  # steps of the others may be in a timeline to come
    assert shown(200.0) == there
    write(folder, timeline_key(BEGIN + 180), timeline(steps([179.0], 0.5)))
    assert shown(0.0) == there[:3]
    assert shown(0.0, after=MINUTE) == there[1:3]
    ended(folder)
    assert shown(0.0) == there


@pytest.mark.parametrize("hours", [True, False])
def test_the_listing_begins_at_the_frontier(tmp_path: Path, hours: bool) -> None:
    folder = tmp_path / "profiler-output"
    for at in range(0, 300, 20):
        key = system_key(MINUTE + at)
        flat = f"system/incremental/{key.rpartition('/')[2]}"
        write(folder, key if hours else flat, lines(MINUTE + at, ticks=1))
    run = open_run(str(folder))
    keys = [found.key for found in index_objects(run, MINUTE + 200)]
    assert keys == [index_key(MINUTE + at, "algo-1") for at in (220, 240, 260, 280)]
    fresh = open_run(str(folder))  # without a listing before
    assert index_at(fresh, MINUTE + 40, "algo-1") is not None
    assert index_at(fresh, MINUTE + 41, "algo-1") is None


def test_of_several_workers_the_first_is_timed_and_nodes_are_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "profiler-output"
    for node in ("algo-1", "algo-2"):
        write(folder, system_key(node=node), lines(node=node, ticks=4))
        for rank, seconds in ((10, 0.2), (9, 0.4)):
            end = BEGIN + 5 + rank / 100
            text = timeline(steps([1.0, 2.0], seconds))
            write(folder, timeline_key(end, f"{rank}-{node}"), text)
    ended(folder)
    run = open_run(str(folder))
    assert [means(minute)["step/TRAIN"] for minute in minutes(run)] == [0.4, 0.4]
    known = read_collections(run)
    assert known is not None
    assert known.num_workers == 2


def test_phases_by_framework(tmp_path: Path) -> None:
    folder = tmp_path / "profiler-output"
    events: list[Event] = [
        *steps([1.0], 0.5, "GLOBAL"),
        *steps([2.0], 0.25, "EVAL"),
        ("Forward", "Net", 1.0, 0.125, {}),
        ("Forward-SubModuleInternal", "Linear", 1.0, 0.1, {}),
        ("DataLoaderIterInitialize", "_SingleProcessDataLoaderIter.__init__", 0.5, 1.0, {"pid": 1}),
    ]
    write(folder, timeline_key(BEGIN + 5), timeline(events))
    tf: list[Event] = [
        ("DataIterator", "IteratorGetNextOp::DoCompute", 1.0, 0.0625, {}),
        ("DataIterator", "dataset::GetNext", 1.0, 30.0, {}),
    ]
    write(folder, timeline_key(BEGIN + 6, kind="model_timeline"), timeline(tf))
    (minute,) = minutes(open_run(str(folder)))
    found = {n: m for n, m in means(minute).items() if n.startswith("step/")}
    assert found == {
        "step/TRAIN": 0.5,
        "step/EVAL": 0.25,
        "step/forward": 0.125,
        "step/wait": 0.0625,
    }


def test_a_minute_without_a_step_is_known_only_from_a_later_timeline(tmp_path: Path) -> None:
    folder = tmp_path / "profiler-output"
    for at in range(3):
        write(folder, system_key(MINUTE + at), lines(MINUTE + at, ticks=2))
    write(folder, timeline_key(BEGIN + 65), timeline(steps([64.0], 0.5)))
    ended(folder)
    sizes = []
    for minute in minutes(open_run(str(folder))):
        entry = minute.entry("step/TRAIN")
        sizes.append(None if entry is None or entry.summary is None else entry.summary.size)
    assert sizes == [0, 1, None]


def test_a_missed_sample(tmp_path: Path) -> None:
    folder = tmp_path / "profiler-output"
    text = lines(gpus=[7.0], ticks=10).splitlines(keepends=True)
    write(folder, system_key(), "".join(text[: 14 * 4] + text[14 * 5 :]))
    ended(folder)
    (minute,) = minutes(open_run(str(folder)))
    length, gpu = minute.entry("machine/minute"), minute.entry("gpu0/GPUUtilization")
    assert length is not None
    assert length.summary is not None
    assert (length.summary.max, length.summary.size) == (pytest.approx(5.0, abs=0.01), 1)
    assert gpu is not None
    assert gpu.shape == (9,)


def test_our_own_minutes_come_first_and_a_file_that_is_no_metric_is_refused(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "profiler-output"
    write(folder, system_key(), "{}\n")
    ended(folder)
    os.utime(folder / system_key(), (1e9, 1e9))
    checkpoint, report = check(open_run(str(folder)))
    assert checkpoint.steps == 0
    assert any("no line is a system metric" in line for line in report.log)
    write_minutes(str(folder), [Minute(series={"gpu0/GPUUtilization": [50.0]})])
    run = open_run(str(folder))
    assert [found.key for found in index_objects(run)] == [index_key(0, "node_0")]
    with pytest.raises(NotFound):
        run.read(index_key(MINUTE, "algo-1"))


def test_a_folder_of_any_name(tmp_path: Path) -> None:
    assert not isinstance(named_as_run(LocalStorage(tmp_path)), ProfilerRun)
    write(tmp_path, system_key(), lines(ticks=1))
    run = named_as_run(open_run(str(tmp_path)))
    assert run.url == f"{tmp_path}/profiler-output"
    assert read_end(run) is None
    assert [type(found) for found in index_objects(run)] == [Object]
