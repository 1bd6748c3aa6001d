"""``tocsin profile RUN --trace``: a timeline for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tocsin.model import Mode
from tocsin.tensors import Entry, IndexFile, inline_value

Event = dict[str, Any]

_MICROSECONDS = 1_000_000
_MOST_COUNTERS = 300_000  # about 50 MB: chrome://tracing cannot open much more
_SPENT = (
    (Mode.TRAIN.name, "training"),
    (Mode.EVAL.name, "evaluation"),
    (Mode.PREDICT.name, "prediction"),
    ("wait", "waiting for data"),
)


def timeline(
    minutes: Sequence[IndexFile], rules: Sequence[Mapping[str, Any]], run: str
) -> tuple[dict[str, Any], bool]:
    """Return a Chrome trace, and whether samples were left out of it because there are too many.

    Each machine is a process. A minute is a slice for each way in which it was spent, one after the
    other in the order of the legend and not in that of the steps. Metrics are counters at the time
    of each sample, and rules that fired are instants. Times count from the first minute.
    """
    length = max((_seconds(minute) for minute in minutes), default=60.0)
    first = min((minute.step for minute in minutes), default=0)
    numbers = {name: at for at, name in enumerate(sorted({m.worker for m in minutes}), start=1)}
    samples = sum(len(_values(e)) for minute in minutes for e in minute.entries if _is_metric(e))
    thin = samples > _MOST_COUNTERS
    events: list[Event] = []
    for name, number in numbers.items():
        events.append(_named("process_name", f"{number:02} {name}", number, 0))
        events.append(_named("thread_name", "how a minute was spent", number, 1))
    for minute in minutes:
        start = (minute.step - first) * length * _MICROSECONDS
        number = numbers[minute.worker]
        events += _slices(minute, number, start, length * _MICROSECONDS)
        for entry in filter(_is_metric, minute.entries):
            events += _counters(entry, number, start, _seconds(minute), thin=thin)
    for rule in rules:
        if fired := rule.get("FiredAt"):
            at = (fired["step"] - first) * length * _MICROSECONDS
            events.append(_instant(rule, numbers.get(fired.get("worker"), 1), max(0.0, at)))
    other = {"run": run, "seconds_since_1970": first * length}
    return {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}, thin


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return the trace as JSON, without spaces."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def _slices(minute: IndexFile, number: int, start: float, length: float) -> Iterator[Event]:
    at, end = start, start + length
    for series, name in _SPENT:
        entry = minute.entry(f"step/{series}")
        summary = entry.summary if entry is not None else None
        if summary is None or not summary.size or summary.mean is None:
            continue
        spent = min(summary.size * summary.mean * _MICROSECONDS, end - at)
        known = {"count": summary.size, "mean_s": summary.mean, "max_s": summary.max}
        known |= {f"p{100 * float(q):g}_s": v for q, v in (summary.quantiles or {}).items()}
        if spent > 0:
            yield {
                "name": name,
                "ph": "X",
                "ts": at,
                "dur": spent,
                "pid": number,
                "tid": 1,
                "args": {key: value for key, value in known.items() if value is not None},
            }
        at += spent


def _counters(
    entry: Entry, number: int, start: float, seconds: float, *, thin: bool
) -> Iterator[Event]:
    values = _values(entry)
    if thin and entry.summary is not None and entry.summary.mean is not None:
        values = [entry.summary.mean]
    apart = seconds * _MICROSECONDS / max(1, len(values))
    for at, value in enumerate(values):
        if math.isfinite(value):
            counter = {"name": entry.name, "ph": "C", "ts": start + at * apart, "pid": number}
            yield {**counter, "tid": 0, "args": {"value": round(value, 3)}}


def _values(entry: Entry) -> list[float]:
    """The samples of a metric, or its mean where there are none."""
    inline = inline_value(entry)
    if inline is not None:
        return [float(value) for value in inline.reshape(-1)]
    mean = entry.summary.mean if entry.summary is not None else None
    return [] if mean is None else [mean]


def _is_metric(entry: Entry) -> bool:
    return entry.role == "system" and entry.kind != "minute"


def _seconds(minute: IndexFile) -> float:
    entry = minute.entry("machine/minute")
    known = entry.summary.max if entry is not None and entry.summary is not None else None
    return known or 60.0


def _named(what: str, name: str, process: int, thread: int) -> Event:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _instant(rule: Mapping[str, Any], process: int, at: float) -> Event:
    return {
        "name": rule["RuleConfigurationName"],
        "ph": "i",
        "s": "p",
        "ts": at,
        "pid": process,
        "tid": 1,
        "args": {"details": rule["StatusDetails"]},
    }
