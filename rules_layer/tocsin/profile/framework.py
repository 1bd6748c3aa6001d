"""Chrome traces: arrays of events, as smdebug's hook, Horovod and TensorFlow's profiler write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

_MOST_NAME = 1000
_MOST_TIME = 5e15  # µs: the year 2128
_MOST_OPEN = 100_000  # events that have begun
_BASE = "start_time_since_epoch_in_micros"

_Time = Annotated[float, Meta(gt=-_MOST_TIME, lt=_MOST_TIME)]
_Id = int | str | float | None


class TraceEvent(msgspec.Struct, frozen=True, gc=False):
    """Something that took a time. ``start`` and ``end`` are µs since the epoch.

    ``phase``: the process of the trace: ``Step:ModeKeys.TRAIN``, ``Forward``, a tensor of Horovod.
    ``worker``: ``RANK-NODE`` or ``PID-NODE``. ``kind``: that of the file, ``pythontimeline`` …
    """

    name: str
    phase: str
    start: int
    end: int
    worker: str
    kind: str
    pid: int | str | float | None = None
    tid: int | str | float | None = None
    args: dict[str, Any] = {}

    @property
    def duration(self) -> int:
        return self.end - self.start


class _Raw(msgspec.Struct, frozen=True, gc=False):
    name: str | int | float = ""
    ph: str = ""
    ts: _Time = 0.0
    dur: _Time = 0.0
    pid: _Id = None
    tid: _Id = None
    args: dict[str, Any] | None = None


class _Document(msgspec.Struct, frozen=True):
    traceEvents: list[_Raw] = []  # noqa: N815 - the key in the file


_events = msgspec.json.Decoder(list[_Raw])
_document = msgspec.json.Decoder(_Document)
_event = msgspec.json.Decoder(_Raw)
_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def decode_trace(
    data: bytes, worker: str, kind: str, base: int = 0
) -> tuple[Iterator[TraceEvent], int]:
    """Return the events of a trace in the order of the file, and how many of its lines are broken.

    ``base``: the time that it counts from, in µs since the epoch, where it does not say so itself.
    A file that breaks off is read up to there, if it has one event a line.
    """
    raw, broken = _decoded(data)
    return _finished(raw, worker, kind, base), broken


def _decoded(data: bytes) -> tuple[Sequence[_Raw], int]:
    text = data.strip()
    try:
        return _events.decode(text) if text[:1] == b"[" else _document.decode(text).traceEvents, 0
    except _ERRORS:
        pass
    found, broken = [], 0
    for line in text.splitlines():
        line = line.strip().rstrip(b",").removesuffix(b"]").removeprefix(b"[").rstrip(b",")
        if not line:
            continue
        try:
            found.append(_event.decode(line))
        except _ERRORS:
            broken += 1
    return found, broken


def _finished(raw: Sequence[_Raw], worker: str, kind: str, base: int) -> Iterator[TraceEvent]:
    """Events with their ends and phases. A begin and an end belong together by their order."""
    phases: dict[_Id, str] = {}
    open_events: dict[tuple[_Id, _Id], list[_Raw]] = {}
    count = 0
    for event in raw:
        args = event.args or {}
        if event.ph == "M":
            if event.name == "process_name":
                base = _as_base(args.get(_BASE), base)
                if isinstance(name := args.get("name"), str):
                    phases[event.pid] = name[:_MOST_NAME]
            continue
        begun, end = event, event.ts + max(event.dur, 0.0)
        if event.ph == "B" and count < _MOST_OPEN:
            open_events.setdefault((event.pid, event.tid), []).append(event)
            count += 1
        if event.ph == "E":
            waiting = open_events.get((event.pid, event.tid))
            if not waiting:
                continue
            begun, end, count = waiting.pop(), event.ts, count - 1
        elif event.ph != "X":
            continue
        yield TraceEvent(
            str(begun.name)[:_MOST_NAME],
            phases.get(event.pid, ""),
            base + round(begun.ts),
            base + round(max(end, begun.ts)),
            worker,
            kind,
            event.pid,
            event.tid,
            {**(begun.args or {}), **args},
        )


def _as_base(found: Any, base: int) -> int:
    is_time = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MOST_TIME
    return found if is_time else base
