"""Samples and events of Amazon's profiler, of every kind of file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tocsin.profile import (
    node_of,
    split_profiler_key,
    system_samples,
    trace_events,
    unreadable_profile,
)
from tocsin.profile.content import MOST_BYTES
from tocsin.tensors import LocalStorage

from tests.profiler_files import (
    MINUTE,
    lines,
    steps,
    system_key,
    timeline,
    timeline_key,
    write,
)

FIXTURE = Path(__file__).parents[2] / "fixtures/smdebug/profiler_torch/profiler-output"
BEGIN = 60 * MINUTE


def test_smdebugs_own_timeline() -> None:
    events = list(trace_events(LocalStorage(FIXTURE)))
    assert len(events) == 25
    first = events[0]
    assert (first.phase, first.name, first.worker, first.kind) == (
        "Forward-SubModuleInternal",
        "0",
        "22060-vm",
        "pythontimeline",
    )
    assert (first.start, first.duration) == (1795230904511688 + 1186, 5074)
    assert first.args == {"pid": 22060, "step_num": "0"}
    (custom,) = [event for event in events if event.phase == "MyPhase"]  # its ts is negative
    assert (custom.start, custom.duration) == (1_700_000_000_000_000, 500_000)


def test_system_metrics_of_every_kind(tmp_path: Path) -> None:
    write(tmp_path, system_key(), lines(gpus=[30.0, 40.0], ticks=2))
    samples = list(system_samples(LocalStorage(tmp_path)))
    assert len(samples) == 2 * (8 + 2 * 2 + 2 * 2)
    assert {(s.type, s.dimension) for s in samples} == {
        ("memory", ""),
        ("i/o", ""),
        ("cpu", "CPUUtilization"),
        ("cpu", "I/OWaitPercentage"),
        ("network", "Algorithm"),
        ("network", "Platform"),
        ("gpu", "GPUUtilization"),
        ("gpu", "GPUMemoryUtilization"),
    }
    assert {s.node for s in samples} == {"algo-1"}
    assert samples[0].time == BEGIN + 0.009


@pytest.mark.parametrize(
    "key",
    [
        "system/incremental/2020060305/1591160699.algo-1.json",
        "system/incremental/1591160699.algo-1.json",
        "system/incremental/2020060305/1591160699.algo-12.json.gz",
    ],
)
def test_a_name_may_be_missing_and_places_differ(tmp_path: Path, key: str) -> None:
    line = '{"Type":"cpu","Dimension":"CPUUtilization","Value":4.76,"NodeId":"algo-1",'
    text = line + '"Timestamp":1591160699.457}\n'
    write(tmp_path, key.removesuffix(".gz"), text, packed=key.endswith(".gz"))
    (sample,) = system_samples(LocalStorage(tmp_path))
    assert (sample.name, sample.value, sample.time) == (None, 4.76, 1591160699.457)


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        (lambda text: text[:-20], 11),  # it breaks off
        (lambda text: text.replace('"Value"', '"Other"', 1), 11),
        (lambda text: text.replace("\n", "\n\n").removesuffix("\n\n"), 12),  # no last newline
        (lambda text: "", 0),
    ],
)
def test_what_is_broken_is_left_out_and_said(tmp_path: Path, damage, left: int) -> None:
    write(tmp_path, system_key(), damage(lines(ticks=1)))
    notes: list[str] = []
    assert len(list(system_samples(LocalStorage(tmp_path), note=notes.append))) == left
    assert len(notes) == (left == 11)
    assert all("skipped 1 line that is incomplete" in note for note in notes)


def test_files_that_cannot_be_used_are_a_line_each(tmp_path: Path) -> None:
    write(tmp_path, system_key(), "never\n")
    write(tmp_path, f"{system_key(MINUTE + 1)}.gz", "no gzip, but lines\n")
    packed = tmp_path / f"{system_key(MINUTE + 2)}.gz"
    packed.write_bytes(gzip.compress(b"\n" * (MOST_BYTES + 1)))
    broken = tmp_path / f"{system_key(MINUTE + 3)}.gz"
    broken.write_bytes(b"\x1f\x8b" + b"\0" * 40)
    notes: list[str] = []
    assert not list(system_samples(LocalStorage(tmp_path), note=notes.append))
    assert len(notes) == 4
    assert f"more than the {MOST_BYTES} allowed" in notes[2]
    assert "not gzip" in notes[3]


def test_a_time_selects(tmp_path: Path) -> None:
    for minute in range(3):
        write(tmp_path, system_key(MINUTE + minute), lines(MINUTE + minute))
        end = BEGIN + 60 * minute + 59.5
        write(tmp_path, timeline_key(end), timeline(steps([60 * minute + 58.5], 1.0)))
    run = LocalStorage(tmp_path)
    times = [s.time for s in system_samples(run, BEGIN + 30, BEGIN + 90)]
    assert len(times) == 120 * 12
    assert min(times) >= BEGIN + 30
    assert max(times) < BEGIN + 90
    (event,) = trace_events(run, BEGIN + 90, BEGIN + 119)
    assert event.start == (BEGIN + 118.5) * 1e6


def test_a_timeline_without_its_end_and_events_of_two_parts(tmp_path: Path) -> None:
    text = timeline(steps([1.0, 2.0], 0.5))[:-30]
    write(tmp_path, timeline_key(BEGIN + 3), text)
    rows = [
        {"name": "process_name", "ph": "M", "pid": 3, "args": {"name": "grad_0"}},
        {"name": "NEGOTIATE_ALLREDUCE", "ph": "B", "pid": 3, "ts": 10},
        {"name": "ALLREDUCE", "ph": "B", "pid": 3, "ts": 12},
        {"ph": "E", "pid": 3, "ts": 20},
        {"ph": "E", "pid": 3, "ts": 30},
        {"ph": "E", "pid": 3, "ts": 40},  # of nothing
        {"name": "CYCLE_START", "ph": "i", "pid": 3, "ts": 41, "s": "g"},
    ]
    horovod = timeline([])[:-2] + ",\n" + ",\n".join(map(json.dumps, rows))  # it goes on
    write(tmp_path, timeline_key(BEGIN + 4, kind="horovod_timeline"), horovod, packed=True)
    notes: list[str] = []
    events = list(trace_events(LocalStorage(tmp_path), note=notes.append))
    base = BEGIN * 1_000_000
    assert [(e.kind, e.name, e.phase, e.start - base, e.duration) for e in events] == [
        ("pythontimeline",) + ("Step:ModeKeys.TRAIN",) * 2 + (1_000_000, 500_000),
        ("horovod_timeline", "ALLREDUCE", "grad_0", 12, 8),
        ("horovod_timeline", "NEGOTIATE_ALLREDUCE", "grad_0", 10, 20),
    ]
    assert len(notes) == 1


def test_traces_of_tensorflow_are_dated_by_the_file_beside(tmp_path: Path) -> None:
    trace = {
        "displayTimeUnit": "ns",
        "traceEvents": [
            {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
            {"ph": "X", "pid": 1, "tid": 2, "name": "MatMul", "ts": 5.25, "dur": 1.5},
            {},
        ],
    }
    folder = "framework/tensorflow/detailed_profiling/2026100301/000000009/"
    for step in (folder, folder.replace("09", "10")):
        write(tmp_path, f"{step}plugins/profile/r1/h.trace.json", json.dumps(trace), packed=True)
    start = BEGIN * 1_000_000
    write(tmp_path, f"{folder}7-algo-1_{start}_{start + 9}.metadata", "")
    notes: list[str] = []
    (event,) = trace_events(LocalStorage(tmp_path), note=notes.append)
    assert (event.name, event.phase, event.start - start, event.worker, event.kind) == (
        "MatMul",
        "/device:GPU:0",
        5,
        "7-algo-1",
        "tensorflow",
    )
    assert "no .metadata file gives its date" in notes[0]


def test_whose_a_file_is() -> None:
    prefix, minute = "jobs/j1/profiler-output", f"index/{MINUTE // 1000:09d}/{MINUTE:012d}"
    assert split_profiler_key(f"{prefix}/{system_key()}") == (prefix, f"{minute}_algo-1.json")
    at = timeline_key(BEGIN + 3)
    assert split_profiler_key(f"{prefix}/{at}") == (prefix, f"{minute}_algo-1.json")
    end = f"{prefix}/system/training_job_end.ts"
    assert split_profiler_key(end) == (prefix, "training_job_end.ts")
    for other in (
        f"jobs/j1/{system_key()}",
        f"{prefix}/framework/training_job_end.json",
        f"{prefix}/system/incremental/1.algo-1.json",
        f"{prefix}/profiler-reports/CPUBottleneck.json",
    ):
        assert split_profiler_key(other) is None
    assert (node_of("12-algo-1"), node_of("vm"), node_of("3-my-host")) == (
        "algo-1",
        "vm",
        "my-host",
    )


_STEP = "framework/tensorflow/detailed_profiling/2020110314/000000005/plugins/profile/run/"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([f"{_STEP}host.xplane.pb"], f"{_STEP}host.xplane.pb"),
        ([f"{_STEP}host.trace.json.gz"], f"{_STEP}host.trace.json.gz"),
        (["plugins/profile/run/host.trace.json.gz"], "plugins/profile/run/host.trace.json.gz"),
        ([f"{_STEP}host.xplane.pb", system_key(MINUTE)], None),
        ([system_key(MINUTE)], None),
        ([], None),
    ],
)
def test_profiles_of_tensorflow_alone_are_named(
    tmp_path: Path, keys: list[str], expected: str | None
) -> None:
    storage = LocalStorage(tmp_path)
    for key in keys:
        storage.write(key, b"{}")
    assert unreadable_profile(storage) == expected
    notes: list[str] = []
    assert list(trace_events(storage, note=notes.append)) == []
    unread = [key for key in keys if key.startswith("plugins/") or key.endswith(".pb")]
    assert [line.partition(" of run")[0] for line in notes if "TensorBoard" in line] == unread
