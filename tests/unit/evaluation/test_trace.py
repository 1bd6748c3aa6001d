"""The trace of an evaluation: thinned, kept beside the checkpoint, and safe to lose."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.evaluation import (
    MOST_POINTS,
    Hint,
    Lane,
    MemoryTraces,
    Point,
    Trace,
    decode_trace,
    encode_trace,
    memory_ports,
    reconcile,
)
from tocsin.evaluation.trace import MOST_SCALARS
from tocsin.evaluation.unit_of_work import EvaluationReport
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, Captured, LocalStorage, RunWriter, summarize
from tocsin.watch import to_watch

LOSS = ("loss", "TRAIN", "loss", "worker_0")


def points(values: list[float], found: str = "h", of: str = "A", first: int = 0) -> list[Point]:
    return [Point(of, first + at, found, value, 2.0) for at, value in enumerate(values)]


def kept(values: list[Point]) -> Lane:
    trace = Trace(MOST_POINTS)
    trace.extend(values)
    return trace.lanes["A"]


def test_a_lane_is_thinned_evenly_and_keeps_every_extreme() -> None:
    values = [1.0] * 10_000
    values[1234], values[8000] = 9.0, -9.0
    lane = kept(points(values))

    assert len(lane.steps) <= MOST_POINTS
    gaps = np.diff(np.array(lane.steps))
    assert gaps[: -MOST_POINTS // 2].max() <= 4 * 10_000 / 400
    assert (max(lane.high), min(lane.low)) == (9.0, -9.0)
    at = lane.high.index(9.0)
    assert lane.steps[at] <= 1234 < lane.steps[at + 1]


def test_steps_around_the_first_firing_are_all_there() -> None:
    lane = kept([*points([1.0] * 5000), *points([3.0] * 5000, "f", first=5000)])

    assert set(range(4950, 5050)) <= set(lane.steps)
    assert bytes(lane.found[lane.steps.index(4999) : lane.steps.index(5001)]) == b"hf"


def test_the_worst_of_a_slice_counts() -> None:
    found = [Point("A", step, "v" if step == 777 else "u") for step in range(5000)]
    lane = kept(found)

    at = lane.found.index(b"v")
    assert lane.steps[at] <= 777 < lane.steps[at + 1]


@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(-1e9, 1e9)), min_size=1, max_size=60))
def test_any_steps_are_bounded_and_ordered(jumps: list[tuple[int, float]]) -> None:
    steps = np.cumsum([jump for jump, _ in jumps])
    trace = Trace(2 * 50)  # no more than what is never thinned
    trace.extend(Point("A", int(at), "h", v) for at, (_, v) in zip(steps, jumps, strict=True))
    lane = trace.lanes["A"]
    lane.thin()

    assert list(lane.steps) == sorted(set(lane.steps))
    assert max(lane.high) == max(value for _, value in jumps)


def test_the_same_points_again_change_nothing_and_a_restart_goes_back() -> None:
    trace = Trace(MOST_POINTS)
    trace.extend(points([1.0] * 10))
    once = encode_trace(trace)
    trace.extend(points([1.0] * 5, first=5))
    assert encode_trace(trace) == once

    trace.extend(points([3.0], "v", first=4))
    assert list(trace.lanes["A"].steps) == [0, 1, 2, 3, 4]


def test_scalars_are_few_and_rules_that_are_gone_are_dropped() -> None:
    trace = Trace(MOST_POINTS)
    trace.extend(Point(("loss", "TRAIN", str(n), "w"), 0, value=1.0) for n in range(99))
    trace.extend([*points([1.0]), *points([1.0], of="B")])
    trace.keep({"B"})

    assert len(trace.lanes) == MOST_SCALARS + 1
    assert "A" not in trace.lanes


def test_encoding_keeps_everything() -> None:
    trace = Trace(MOST_POINTS)
    trace.extend([*points([1.5, 2.5]), Point("B", 3), Point(LOSS, 3, value=0.1)])
    again = decode_trace(encode_trace(trace))

    assert encode_trace(again) == encode_trace(trace)
    assert again.lanes[LOSS].values[0] == 0.1
    assert math.isnan(again.lanes["B"].limits[0])


@pytest.mark.parametrize(
    "data",
    [
        b"rubbish",
        zlib.compress(b"rubbish"),
        zlib.compress(msgspec.msgpack.encode({"version": 2, "lanes": []})),
        zlib.compress(
            msgspec.msgpack.encode(
                {"version": 1, "lanes": [["A", False, b"\0" * 8, b"", [b"", b"", b"", b""]]]}
            )
        ),
    ],
)
def test_what_is_no_trace_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"trace|version"):
        decode_trace(data)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LocalStorage]:
    storage = LocalStorage(tmp_path)
    writer = RunWriter(storage, run_id="r")
    for step in range(600):
        loss = np.float32(math.exp(-step / 600))
        weight = np.full(4, loss, np.float32)
        captured = [
            Captured("loss", loss, summary=summarize(loss), role="loss"),
            Captured("w", weight, summary=summarize(weight), role="weight"),
        ]
        writer.write(step, Mode.TRAIN, step, captured)
    storage.write(END_MARKER, b"")
    return storage


class Lost:
    """A store that is not there."""

    def load(self, run: str) -> Trace:
        raise OSError("no such bucket")

    def save(self, run: str, trace: Trace) -> None:
        raise AssertionError("nothing was loaded")


WATCH = to_watch({"rules": ["LossNotDecreasing", "ExplodingTensor"]})


def test_a_look_moves_points_from_the_checkpoint_to_the_trace(run: LocalStorage) -> None:
    traces = MemoryTraces()
    ports = replace(memory_ports(run, lambda: 2e9), traces=traces)
    reconcile(Hint(run.url), ports, EvaluationReport(), deadline=math.inf, watch=WATCH)
    checkpoint = ports.checkpoints.load(run.url).checkpoint
    stored = traces.load(run.url)
    before = encode_trace(stored)

    assert len(checkpoint.points) < 1000
    stored.extend(checkpoint.points)
    assert list(stored.lanes["ExplodingTensor"].steps) == list(range(600))
    assert list(stored.lanes[LOSS].steps) == list(range(600))
    assert len(before) < len(encode_trace(stored)) < 40_000


def test_without_a_place_for_traces_no_points_are_kept(run: LocalStorage) -> None:
    ports = memory_ports(run, lambda: 2e9)
    reconcile(Hint(run.url), ports, EvaluationReport(), deadline=math.inf, watch=WATCH)

    assert ports.checkpoints.load(run.url).checkpoint.points == ()


def test_a_trace_that_cannot_be_written_costs_points_and_nothing_else(run: LocalStorage) -> None:
    ports = replace(memory_ports(run, lambda: 2e9), traces=Lost())
    report = EvaluationReport()
    reconcile(Hint(run.url), ports, report, deadline=math.inf, watch=WATCH)

    assert ports.checkpoints.load(run.url).checkpoint.ended == "marker"
    assert [line for line in report.log if "points of the trace are lost: no such bucket" in line]
