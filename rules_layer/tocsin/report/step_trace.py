"""The newest step trace of a run, as the page shows it."""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np

from tocsin.report.kernels import Kernels, device_time
from tocsin.report.machine_parts import Operators, StepTrace
from tocsin.report.thin import digit
from tocsin.tensors import MOST_TRACE_BYTES, NotFound, Object, RefusedFile, Storage, traces_of
from tocsin.words import clean

_MOST_PLAIN = 128 << 20  # bytes of a trace, unpacked
_MOST_ROWS = 10
_LONGEST_NAME = 120
_MICROSECOND = 1e-6
_STEP = "ProfilerStep#"
_KERNELS = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


class RecordedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event of Chrome's trace format, as far as it counts here; times are in µs."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: int | str = 0


class _File(msgspec.Struct, frozen=True, rename={"events": "traceEvents"}):
    events: list[RecordedEvent]


_decoder = msgspec.json.Decoder(_File)


def newest_trace(storage: Storage) -> StepTrace | None:
    """Return the newest step trace of a run; None if there is none, or its place cannot be read."""
    try:
        found = traces_of(storage)
        return trace_of(storage, found[-1]) if found else None
    except (NotFound, PermissionError):  # it costs the page this section only
        return None


def trace_of(storage: Storage, item: Object) -> StepTrace:
    """Return a step trace, or the reason why it cannot be shown."""
    made = datetime.fromtimestamp(item.modified, UTC).isoformat(timespec="seconds")
    url = f"{storage.url}/{item.key}"
    try:
        events = events_of(storage.read(item.key, MOST_TRACE_BYTES))
    except (RefusedFile, ValueError, RecursionError) as error:
        return StepTrace(url, made, problem=clean(str(error))[:500])
    steps = [event.dur * _MICROSECOND for event in events if event.name.startswith(_STEP)
             and event.cat == "user_annotation"]  # fmt: skip
    kernels = [event for event in events if event.cat in _KERNELS]
    begins = np.array([event.ts for event in kernels])
    ends = begins + np.array([event.dur for event in kernels])
    time = device_time(Kernels([event.name for event in kernels], begins, ends))
    return StepTrace(
        url,
        made,
        steps=len(steps),
        seconds=digit(sum(steps) / len(steps)) if steps else None,
        span=None if time is None else digit(time.span * _MICROSECOND),
        shares={} if time is None else {
            name: digit(share)
            for name in ("compute", "rest", "idle", "communication", "overlap")
            if (share := getattr(time, name)) is not None
        },
        operators=[*_tables(events, kernels)],
    )  # fmt: skip


def events_of(packed: bytes) -> list[RecordedEvent]:
    """Return the events of a gzipped trace that last. Raises ValueError for one that is damaged or
    that has more than 128 MiB unpacked.
    """
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(packed, _MOST_PLAIN)
    except zlib.error as error:
        raise ValueError(f"it is not a gzip file: {error}") from None
    if unpacker.unconsumed_tail:
        most = f"{_MOST_PLAIN >> 20} MiB"
        raise ValueError(f"it has more than {most} unpacked: open it in ui.perfetto.dev")
    if not unpacker.eof:
        raise ValueError("it is truncated")
    return [event for event in _decoder.decode(plain).events if _lasts(event)]


def _lasts(event: RecordedEvent) -> bool:
    return event.ph == "X" and math.isfinite(event.ts) and 0 <= event.dur < math.inf


def _tables(
    events: Sequence[RecordedEvent], kernels: Sequence[RecordedEvent]
) -> Iterator[Operators]:
    """Return the longest operations: on the GPU, on the host, and by the names that PyTorch gives
    phases."""
    operators = own_times([event for event in events if event.cat == "cpu_op"])
    phases = [e for e in events if e.cat == "user_annotation" and not e.name.startswith(_STEP)]
    for title, durations in (
        ("On the GPU", ((event.name, event.dur) for event in kernels)),
        ("Operators of the host, each without those that it calls", operators),
        ("Phases", ((event.name, event.dur) for event in phases)),
    ):
        if rows := _longest(durations):
            yield Operators(title, rows)


def own_times(events: Sequence[RecordedEvent]) -> Iterator[tuple[str, float]]:
    """Yield the name of each event, and its time without the events inside of it in its thread."""
    threads = defaultdict[int | str, list[RecordedEvent]](list)
    for event in events:
        threads[event.tid].append(event)
    for own in threads.values():
        open_: list[tuple[float, str, list[float]]] = []  # its end, its name, [its own time]
        for event in sorted(own, key=lambda each: (each.ts, -each.dur)):
            while open_ and open_[-1][0] <= event.ts:
                _, name, left = open_.pop()
                yield name, max(left[0], 0.0)
            if open_:
                open_[-1][2][0] -= event.dur
            open_.append((event.ts + event.dur, event.name, [event.dur]))
        yield from ((name, max(left[0], 0.0)) for _, name, left in open_)


def _longest(durations: Iterable[tuple[str, float]]) -> list[tuple[str, int, float, float]]:
    """Rows of the names that take longest: name, count, seconds, and the share of all."""
    sums = defaultdict[str, list[float]](lambda: [0, 0.0])
    for name, duration in durations:
        entry = sums[name]
        entry[0] += 1
        entry[1] += duration
    whole = sum(each[1] for each in sums.values()) or 1.0
    longest = sorted(sums.items(), key=lambda each: -each[1][1])[:_MOST_ROWS]
    return [
        (_short(name), int(count), digit(total * _MICROSECOND) or 0.0, digit(total / whole) or 0.0)
        for name, (count, total) in longest
    ]


def _short(name: str) -> str:
    name = clean(name)
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
