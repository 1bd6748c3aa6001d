"""The last values of an alert's tensor, from the run's index files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice

from tocsin.actions.curve import measure
from tocsin.events import StatusChange
from tocsin.model import TensorSummary
from tocsin.tensors import (
    INDEX,
    NotFound,
    Object,
    Storage,
    after_step,
    decode_index,
    parse_index_key,
)

Point = tuple[int, float]

_POINTS = 32
_FEW = 8
_FILES = 200
_FILE_BYTES = 4 << 20
_ALL_BYTES = 64 << 20
_LISTED = 10_000
_SECONDS = 2.0  # then what was read is enough
_LONGEST = 3.0  # then it goes without
_THREADS = 8
_LAST_STEP = 10**11  # beyond it keys are not in the order of steps


def recent(
    storage: Storage, alert: StatusChange, clock: Callable[[], float] = time.monotonic
) -> tuple[Point, ...]:
    """Step and ``measure`` of the alert's tensor at its last saves, at most 32, the oldest first.

    Only saves by the alert's worker and in its mode, up to its step. NaN where nothing was finite.
    Empty where they cannot be read: an e-mail goes without. Reads at most 200 files and 64 MiB, and
    takes three seconds at most.
    """
    pool = ThreadPoolExecutor(_THREADS + 1)
    try:
        return pool.submit(_points, storage, alert, clock, pool).result(_LONGEST)
    except Exception:  # noqa: BLE001 - whatever is wrong with a run, its alert has to be sent
        return ()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # a read that hangs holds nobody up


def _points(
    storage: Storage, alert: StatusChange, clock: Callable[[], float], pool: Executor
) -> tuple[Point, ...]:
    if alert.tensor is None or alert.step is None or alert.step >= _LAST_STEP:
        return ()
    until = clock() + _SECONDS
    newest_first = _near(storage, alert.step, alert.worker)[::-1][:_FILES]
    files = list(_affordable(newest_first))
    found: dict[int, float] = {}
    for start in range(0, len(files), _THREADS):
        if len(found) >= _POINTS or clock() > until:
            break
        batch = files[start : start + _THREADS]
        for point in pool.map(lambda item: _point(storage, item, alert), batch):
            if point:
                found.setdefault(*point)
    return tuple(sorted(found.items())[-_POINTS:])


def _near(storage: Storage, step: int, worker: str | None) -> list[Object]:
    """Index files up to the step, oldest first, from some steps before: S3 lists forwards only."""
    found = _between(storage, step - 1_000, step, worker)
    if found is None:
        return _between(storage, step - 50, step, worker) or []
    if len(found) < _FEW:
        return _between(storage, step - 32_000, step, worker) or found
    return found


def _between(storage: Storage, after: int, last: int, worker: str | None) -> list[Object] | None:
    """The worker's index files, or all for None; None itself if there are too many to list."""
    found: list[Object] = []
    listed = 0
    for item in islice(storage.list(INDEX, after_step(after)), _LISTED):
        listed += 1
        place = parse_index_key(item.key)
        if place is None:
            continue
        if place[0] > last:
            return found
        if worker in (None, place[1]):
            found.append(item)
    return found if listed < _LISTED else None


def _affordable(files: list[Object]) -> Iterator[Object]:
    left = _ALL_BYTES
    for item in files:
        if item.size > _FILE_BYTES:
            continue
        left -= item.size
        if left < 0:
            return
        yield item


def _point(storage: Storage, item: Object, alert: StatusChange) -> Point | None:
    """The tensor in one file; only this is kept of it, for files may be large."""
    place = parse_index_key(item.key)
    if place is None:
        return None
    try:
        index = decode_index(storage.read(item.key, limit=_FILE_BYTES), *place)
    except (ValueError, NotFound):
        return None
    entry = index.entry(alert.tensor or "")
    if entry is None or entry.summary is None or alert.mode not in (None, index.mode.name):
        return None
    value = _value(entry.summary, measure(alert))
    return None if value is None else (index.step, value)


def _value(summary: TensorSummary, field: str) -> float | None:
    value: float | None = getattr(summary, field)
    if value is None and any((summary.nan, summary.posinf, summary.neginf)):
        return float("nan")
    return value
