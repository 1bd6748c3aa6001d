"""Minutes of a machine: what is sampled when, what is missed, and what clocks do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.profile import Minute, entries
from tocsin.tensors import (
    IndexFile,
    LocalStorage,
    RunMeta,
    decode_index,
    encode_index,
    inline_value,
    read_index,
    write_step,
)
from tocsin_hooks.machine.sampler import MinuteClock, Minutes, Sampler
from tocsin_hooks.timings import TimedLoader, Timings


class Clock:
    """A clock of the machine and a steady one, moved by hand."""

    def __init__(self, now: float = 6000.0) -> None:
        self.time = now
        self.steady = 50.0

    def minutes(self, interval: float = 10.0, timings: Timings | None = None) -> Minutes:
        clock = MinuteClock(60.0, lambda: self.time, lambda: self.steady)
        return Minutes(interval, clock, timings)

    def move(self, seconds: float) -> None:
        self.time += seconds
        self.steady += seconds


def sampled(minutes: Minutes, clock: Clock, *waits: float) -> list[tuple[int, Minute]]:
    """Adds a sample after each wait; the minutes that were over."""
    found = []
    for number, wait in enumerate(waits):
        clock.move(wait)
        if (done := minutes.add({"cpu/busiest": float(number)})) is not None:
            found.append(done)
    return found


def test_a_minute_has_a_place_for_each_tick() -> None:
    clock = Clock()
    ((number, minute),) = sampled(clock.minutes(), clock, 5, 10, 10, 10, 10, 10, 10)
    assert (number, minute.seconds, minute.missed) == (100, 60.0, 0)
    assert minute.series == {"cpu/busiest": [0, 1, 2, 3, 4, 5]}


def test_what_is_late_is_missed_and_not_made_up_for() -> None:
    clock = Clock()
    ((_, minute),) = sampled(clock.minutes(), clock, 5, 10, 30, 10, 10)
    assert minute.missed == 2
    np.testing.assert_equal(minute.series["cpu/busiest"], [0, 1, math.nan, math.nan, 2, 3])


def test_a_short_minute_at_the_end_and_one_that_was_slept_through() -> None:
    clock = Clock(6030.0)
    minutes = clock.minutes()
    ((number, first),) = sampled(minutes, clock, 5, 10, 200)
    assert (number, first.seconds) == (100, 30.0)
    last = minutes.last()
    assert last is not None
    assert last[0] == 104
    assert minutes.last() is None


@pytest.mark.parametrize(("jump", "numbers"), [(-7200.0, [100, 101]), (7200.0, [100, 220])])
def test_a_clock_that_jumps_is_said_once_and_no_number_comes_again(
    jump: float, numbers: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    minutes = clock.minutes()
    found = sampled(minutes, clock, 5, 10)
    clock.time += jump
    found += sampled(minutes, clock, 10, 10, 10, 10, 10, 10, 60)
    last = minutes.last()
    assert last is not None
    known = [number for number, _ in [*found, last]]
    assert known == sorted(set(known))
    assert known[0] == numbers[0]
    assert numbers[1] in known
    assert len([r for r in caplog.records if "the clock jumped" in r.message]) == 1


def test_steps_are_counted_in_the_minute_in_which_they_end() -> None:
    clock, timings = Clock(), Timings()
    minutes = clock.minutes(timings=timings)
    timings.begin(Mode.TRAIN)
    timings.end()
    timings.begin(Mode.EVAL)
    ((_, minute),) = sampled(minutes, clock, 61)[:1] or [(0, Minute())]
    assert [len(minute.durations[name]) for name in ("TRAIN", "EVAL", "between")] == [1, 0, 1]
    timings.ended_before()
    last = minutes.last()
    assert last is not None
    assert len(last[1].durations["EVAL"]) == 1


def test_a_loader_is_waited_for_and_its_errors_pass() -> None:
    def loader() -> Any:
        yield 1
        yield 2
        raise KeyError("corrupt")

    timings = Timings()
    with pytest.raises(KeyError, match="corrupt"):
        list(TimedLoader(loader(), timings))
    assert len(timings.take()["wait"]) == 2
    assert list(TimedLoader([1, 2, 3], timings)) == [1, 2, 3]
    assert len(TimedLoader([1, 2, 3], timings)) == 3


def largest() -> Minute:
    """64 cores and 8 GPUs at 100 ms, with 10,000 steps."""
    ticks = np.random.default_rng(0).uniform(0, 100, 600).tolist()
    metrics = ("GPUUtilization", "GPUMemoryUtilization", "MemoryUsedPercent", "Power")
    gpu = [*metrics, "Temperature", "Slowdown", "ECCUncorrectable"]
    names = [f"gpu{number}/{name}" for number in range(8) for name in gpu]
    names += ["cpu/CPUUtilization", "cpu/busiest", "cpu/I/OWaitPercentage"]
    names += ["memory/MemoryUsedPercent", "process/rss", "process/cpu", "process/workers"]
    names += ["i/o/IOPS", "i/o/ReadThroughputInBytesPerSecond", "network/ReceiveBytesPerSecond"]
    durations = {name: [0.006] * 10_000 for name in ("TRAIN", "EVAL", "wait", "between", "forward")}
    return Minute(60.0, dict.fromkeys(names, ticks), durations, 3)


def test_a_minute_of_a_large_machine_is_small(tmp_path: Any) -> None:
    storage = LocalStorage(tmp_path)
    write_step(
        storage, step=7, mode=Mode.GLOBAL, mode_step=7, tensors=entries(largest()), worker="a"
    )
    (found,) = storage.list("index/")
    assert found.size <= 25_000
    index = read_index(storage, found)
    assert index.event_key is None
    gpu = index.entry("gpu3/GPUUtilization")
    assert gpu is not None
    samples = inline_value(gpu)
    assert samples is not None
    assert samples.shape == (120,)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [1.5, -2.0]),
        ({"inline": "AAAA"}, None),
        ({"inline": "no base64!"}, None),
        ({"dtype": "object"}, None),
        ({"dtype": "nonsense"}, None),
        ({"shape": [3]}, None),
        ({"inline": None}, None),
    ],
)
def test_inline_values_that_do_not_fit_are_none(change: Any, expected: Any) -> None:
    import base64
    import json

    data = base64.b64encode(np.array([1.5, -2.0], "<f4").tobytes()).decode()
    entry = {"tensorname": "a", "shape": [2], "dtype": "float32", "inline": data, **change}
    meta = {"mode": "GLOBAL", "mode_step": 0}
    document = json.dumps({"meta": meta, "tensor_payload": [], "shape_payload": [entry]}).encode()
    (read,) = decode_index(document, 0, "a").entries
    value = inline_value(read)
    assert (None if value is None else value.tolist()) == expected


def test_inline_values_survive_being_written_again() -> None:
    index = IndexFile(0, "a", Mode.GLOBAL, 0, None, RunMeta("id"), ())
    (captured,) = [e for e in entries(Minute(durations={"TRAIN": [0.5]})) if e.inline is not None]
    assert captured.inline is not None
    assert index.event_key is None
    again = decode_index(encode_index(index), 0, "a")  # without tensors it is a step all the same
    assert again.entries == ()


def test_a_source_that_fails_is_said_once_and_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = []

    def broken() -> dict[str, float]:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("away")
        return {"cpu/busiest": 7.0}

    sampler = Sampler([broken, lambda: {"cpu/CPUUtilization": 1.0}], 0.5, lambda *_: None)
    assert [len(sampler.sample()) for _ in range(3)] == [1, 1, 2]
    assert len([r for r in caplog.records if "is sampled without" in r.message]) == 1
