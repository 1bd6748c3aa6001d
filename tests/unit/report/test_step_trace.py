"""The newest step trace on the page: from a file that is not trusted."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.report import StepTrace, html_of, report_on, step_trace
from tocsin.report.step_trace import RecordedEvent, newest_trace, own_times
from tocsin.tensors import Captured, LocalStorage, RunWriter, trace_key

KERNELS = [
    {"ph": "X", "cat": "kernel", "name": "sgemm", "ts": 100.0, "dur": 40, "tid": 7},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_x", "ts": 120, "dur": 60, "tid": 20},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 190, "dur": 10, "tid": 7},
]
STEPS = [
    {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": 50 * n, "dur": 2e3 * n}
    for n in (1, 2)
]
ODD = [{"ph": "M", "name": "process_name", "args": {"name": "x"}}, {"ph": "f", "id": 3, "ts": 1},
       {"ph": "X", "cat": "kernel", "name": "backwards", "ts": 0, "dur": -5}]  # fmt: skip


def stored(folder: Path, events: Any, nanoseconds: int = 1) -> LocalStorage:
    content = events if isinstance(events, bytes) else json.dumps({"traceEvents": events}).encode()
    storage = LocalStorage(folder / "run")
    storage.write(trace_key("worker_0", nanoseconds), gzip.compress(content))
    return storage


def shown(storage: LocalStorage) -> StepTrace:
    found = newest_trace(storage)
    assert found is not None
    return found


def test_a_run_without_a_trace(tmp_path: Path) -> None:
    assert newest_trace(LocalStorage(tmp_path)) is None


def test_the_gpu_and_what_took_longest(tmp_path: Path) -> None:
    found = shown(stored(tmp_path, [*ODD, *KERNELS, *STEPS]))
    assert (found.problem, found.steps, found.seconds, found.span) == (None, 2, 0.003, 1e-4)
    assert found.shares == {
        "compute": 0.4,
        "rest": 0.5,
        "idle": 0.1,
        "communication": 0.6,
        "overlap": 0.3333,
    }
    (gpu,) = found.operators
    assert gpu.title == "On the GPU"
    assert gpu.rows[0] == ("ncclDevKernel_x", 1, 6e-5, 0.5455)


def test_own_time_is_without_what_is_inside() -> None:
    def event(name: str, ts: float, dur: float, tid: int | str = 1) -> RecordedEvent:
        return RecordedEvent("X", name, "cpu_op", ts, dur, tid)

    calls = [event("inner", 2, 3), event("outer", 0, 10), event("innermost", 3, 1),
             event("inner", 6, 2), event("next", 10, 5), event("elsewhere", 1, 4, "t")]  # fmt: skip
    sums: dict[str, float] = {}
    for name, own in own_times(calls):
        sums[name] = sums.get(name, 0) + own
    assert sums == {"outer": 5, "inner": 4, "innermost": 1, "next": 5, "elsewhere": 4}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b"{}", "traceEvents"),
        (b'{"traceEvents": [{"ph": "X", "ts": "now"}]}', "Expected `float`"),
        (b'{"traceEvents": [{"ph": "X", "ts": NaN}]}', "JSON"),
        (b'{"traceEvents": [{"ph": "X", "args": ' + b"[" * 100_000, "recursion"),
        (b" " * 5000 + b"{}", "unpacked"),
    ],
)
def test_a_bad_trace_is_named_and_the_page_goes_on(
    tmp_path: Path, content: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if problem == "unpacked":
        monkeypatch.setattr(step_trace, "_MOST_PLAIN", 1000)
    found = shown(stored(tmp_path, content))
    assert found.problem is not None
    assert problem.lower() in found.problem.lower()


def test_a_file_that_is_no_gzip_or_ends_in_the_middle(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"traceEvents": []}')
    for content, problem in ((b"plain", "not a gzip"), (whole[:-9], "truncated")):
        storage = LocalStorage(tmp_path)
        storage.write(trace_key("worker_0", 1), content)
        assert problem in str(shown(storage).problem)


def test_a_pipe_in_place_of_a_trace(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    os.mkfifo(tmp_path / trace_key("worker_0", 1))
    assert "not a file" in str(shown(LocalStorage(tmp_path)).problem)


def test_the_page_shows_the_newest(tmp_path: Path) -> None:
    stored(tmp_path, [])
    os.utime(tmp_path / "run" / trace_key("worker_0", 1), (1, 1))
    storage = stored(tmp_path, [*KERNELS, *STEPS], 2)
    RunWriter(storage, run_id="r").write(0, Mode.TRAIN, 0, [Captured("loss", np.float32(1))])
    page = report_on(storage)
    assert page.step_trace is not None
    assert page.step_trace.url.endswith(trace_key("worker_0", 2))
    assert "function stepTrace" in html_of(page)
