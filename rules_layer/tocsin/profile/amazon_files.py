"""Writes the minutes of a machine run as files of Amazon's profiler, for tools that read those."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

import msgspec

from tocsin.profile.framework import TraceEvent
from tocsin.profile.keys import INCREMENTAL, PEVENTS
from tocsin.profile.minute_samples import samples_of, steps_of
from tocsin.tensors import IndexFile, Storage

_encoder = msgspec.json.Encoder()


def write_amazon_files(minutes: Sequence[IndexFile], storage: Storage) -> int:
    """Write a file of system metrics and one of steps for each minute; return how many files.

    Machines are ``algo-1``, ``algo-2`` … in the order of their names, as the readers expect.
    """
    names = sorted({minute.worker for minute in minutes})
    hosts = {name: f"algo-{number}" for number, name in enumerate(names, start=1)}
    counts = Counter[tuple[str, str]]()
    written = 0
    for minute in sorted(minutes, key=lambda each: each.step):
        host, start = hosts[minute.worker], 60 * minute.step
        samples = [msgspec.structs.replace(each, node=host) for each in samples_of(minute)]
        if samples:
            key = f"{INCREMENTAL}{_hour(start)}/{start:010d}.{host}.json"
            storage.write(key, b"".join(_encoder.encode(each) + b"\n" for each in samples))
            written += 1
        steps = [*steps_of(minute, counts)]
        if steps:
            end = max(each.end for each in steps)
            key = f"{PEVENTS}{_hour(end // 1_000_000)}/{end}_0-{host}_pythontimeline.json"
            text = ",\n".join(_rows(steps, start * 1_000_000))
            storage.write(key, f"[\n{text}\n]\n".encode())
            written += 1
    return written


def _rows(steps: Sequence[TraceEvent], base: int) -> Iterator[str]:
    """The rows of a Chrome trace whose times count from ``base``, in µs since the epoch."""
    phases = {phase: pid for pid, phase in enumerate(dict.fromkeys(each.phase for each in steps))}
    since = {"start_time_since_epoch_in_micros": base}
    yield json.dumps({"name": "process_name", "ph": "M", "pid": 0, "args": since})
    for phase, pid in phases.items():
        yield json.dumps({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": phase}})
    for each in steps:
        place = {"ts": each.start - base, "dur": each.duration, "pid": phases[each.phase]}
        yield json.dumps({"name": each.name, "ph": "X", **place, "args": each.args})


def _hour(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y%m%d%H}"
