"""What lies in the exported files; that TensorBoard reads them is tested with the real one."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import (
    Captured,
    RunWriter,
    export_tensorboard,
    frames,
    index_objects,
    open_storage,
    read_index,
    summarize,
)
from tocsin.tensors import protobuf as pb
from tocsin.tensors.crc32c import crc32c, mask


@pytest.fixture
def writer(tmp_path):
    return RunWriter(open_storage(tmp_path / "run"))


def _written(run, folder, **options):
    storage = open_storage(run)
    indexes = [read_index(storage, found) for found in index_objects(storage)]
    return export_tensorboard(storage, indexes, folder, **options)


def _export(tmp_path, **options):
    written = _written(tmp_path / "run", tmp_path / "board", **options)
    return {str(path.relative_to(tmp_path / "board")): _events(path) for path in written}


def _events(path):
    """Step and Summary.Value of every event behind the first; its checksums hold."""
    events = []
    for frame in frames(path.read_bytes()):
        payload = frame[12:-4]
        assert struct.unpack("<I", frame[-4:])[0] == mask(crc32c(bytes(payload)))
        event = dict(pb.fields(payload))
        if 5 in event:
            value = dict(pb.fields(dict(pb.fields(event[5]))[1]))
            events.append((event.get(2, 0), bytes(value.pop(1)).decode(), value))
        else:
            assert not events
            assert bytes(event[3]) == b"brain.Event:2"
        assert struct.unpack("<d", event[1])[0] > 1.6e9
    return events


def _scalars(events):
    return [(s, name, struct.unpack("<f", v[2])[0]) for s, name, v in events if 2 in v]


def _histogram(value):
    message = dict(pb.fields(value[5]))
    numbers = [struct.unpack("<d", message[field])[0] for field in range(1, 6)]
    limits, counts = (np.frombuffer(message[field], "<f8") for field in (6, 7))
    return numbers, limits, counts


def test_numbers_become_scalars(writer, tmp_path):
    for step in (0, 10):
        tensors = Captured("loss", 0.5 + step), Captured("flag", True), Captured("z", [3 + 4j])
        writer.write(step, Mode.TRAIN, step, tensors)
    exported = _export(tmp_path)
    assert list(exported) == ["TRAIN/000000000000_worker_0.tfevents"]
    expected = [("loss", 0.5), ("flag", 1.0), ("z", 5.0), ("loss", 10.5), ("flag", 1.0), ("z", 5.0)]
    steps = [0] * 3 + [10] * 3
    found = _scalars(exported["TRAIN/000000000000_worker_0.tfevents"])
    assert found == [(step, *scalar) for step, scalar in zip(steps, expected, strict=True)]


def test_what_is_not_finite_is_shown(writer, tmp_path):
    tensors = [Captured("a", math.nan), Captured("b", 1e300), Captured("c", -math.inf)]
    writer.write(0, Mode.EVAL, 0, tensors)
    (events,) = _export(tmp_path).values()
    assert str(_scalars(events)) == "[(0, 'a', nan), (0, 'b', inf), (0, 'c', -inf)]"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u8", "c8"])
def test_tensors_become_histograms(writer, tmp_path, dtype):
    value = (np.random.default_rng(0).standard_normal((40, 50)) * 10).astype(dtype)
    writer.write(0, Mode.TRAIN, 0, [Captured("w", value)])
    ((_, name, found),) = next(iter(_export(tmp_path).values()))
    numbers, limits, counts = _histogram(found)
    real = np.abs(value).astype(float) if dtype == "c8" else value.astype(float)
    assert name == "w"
    expected = [real.min(), real.max(), real.size, real.sum(), (real**2).sum()]
    assert numbers == pytest.approx(expected)
    assert len(limits) == len(counts) == 30
    assert counts.sum() == real.size
    below = [(real <= limit).sum() for limit in limits]
    assert np.abs(np.cumsum(counts) - below).max() <= (real == np.round(real)).sum()


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (np.ones(7), 7),
        (np.array([math.nan, 1.0, math.inf, 2.0]), 2),
        (np.array([-1.7e308, 1.7e308]), 2),
        (np.array([True, False, True]), 3),
    ],
)
def test_histograms_of_odd_tensors(writer, tmp_path, value, count):
    writer.write(0, Mode.TRAIN, 0, [Captured("w", value)])
    ((_, _, found),) = next(iter(_export(tmp_path).values()))
    numbers, limits, counts = _histogram(found)
    assert numbers[2] == counts.sum() == count
    assert len(limits) == len(counts)


def test_what_cannot_be_shown_is_left_out(writer, tmp_path):
    tensors = [
        Captured("text", ["a", "b"]),
        Captured("empty", np.empty(0)),
        Captured("nothing finite", np.full(3, math.nan)),
        Captured("shape", shape=(3,)),
    ]
    writer.write(0, Mode.TRAIN, 0, tensors)
    assert _export(tmp_path) == {}


def test_summaries_become_scalars(writer, tmp_path):
    tensors = [
        Captured("w", shape=(3,), summary=summarize(np.array([1.0, 2.0, 3.0]))),
        Captured("part", shape=(3,), summary=TensorSummary(mean=4.0)),
        Captured("raw", 5.0, summary=summarize(np.array([5.0]))),
    ]
    writer.write(3, Mode.TRAIN, 0, tensors)
    (events,) = _export(tmp_path).values()
    found = {name: number for _, name, number in _scalars(events)}
    assert found == {
        "raw": 5.0,
        "w/min": 1.0,
        "w/max": 3.0,
        "w/mean": 2.0,
        "w/variance": pytest.approx(2 / 3),
        "w/l2": pytest.approx(14**0.5),
        "part/mean": 4.0,
    }


def test_modes_and_workers_are_kept_apart(tmp_path):
    storage = open_storage(tmp_path / "run")
    for worker in ("worker_0", "/job:worker/task:1"):
        writer = RunWriter(storage, worker)
        writer.write(5, Mode.TRAIN, 5, [Captured("loss", 1.0)])
        writer.write(6, Mode.EVAL, 0, [Captured("loss", 2.0)])
    assert sorted(_export(tmp_path, by_worker=True)) == [
        "EVAL/_job-worker_task-1/000000000006__job-worker_task-1.tfevents",
        "EVAL/worker_0/000000000006_worker_0.tfevents",
        "TRAIN/_job-worker_task-1/000000000005__job-worker_task-1.tfevents",
        "TRAIN/worker_0/000000000005_worker_0.tfevents",
    ]


def test_damage(writer, tmp_path):
    for step in range(3):
        writer.write(step, Mode.TRAIN, step, [Captured("loss", float(step))])
    (tmp_path / "run/events/000000000001/000000000001_worker_0.tfevents").unlink()
    (events,) = _export(tmp_path).values()
    assert _scalars(events) == [(0, "loss", 0.0), (2, "loss", 2.0)]


def test_an_earlier_export_is_replaced(writer, tmp_path):
    writer.write(0, Mode.TRAIN, 0, [Captured("loss", 1.0)])
    assert _export(tmp_path) == _export(tmp_path)


def test_runs_of_smdebug(sample, tmp_path):
    written = _written(sample.path, tmp_path)
    shown = {(step, name) for path in written for step, name, _ in _events(path)}
    numbers = {
        (record["step"], record["tag"])
        for record in sample.records
        if "string_val" not in record and record["content_nbytes"]
    }
    assert shown == numbers
