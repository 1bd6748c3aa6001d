"""The section ``notify`` of a watch file in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from reprlib import repr as short  # a text of a file may be long

from tocsin.events import INTERVALS, LONGEST_WAIT, SHORTEST_REPEAT, NotifyPolicy
from tocsin.parsing import seconds
from tocsin.watch.actions import NOTIFYING, action_fault
from tocsin.watch.config import Notify
from tocsin.watch.errors import Fault

_LONGEST_REPEAT = 365 * 86400.0  # the state table stores the time of the next message


def policy(notify: Notify) -> NotifyPolicy:
    """``notify`` in numbers. Replaces values that are not valid by the defaults."""
    wait, interval, repeat = _wait(notify), _interval(notify), _repeat(notify)
    return NotifyPolicy(
        NotifyPolicy().group_wait if wait is None else wait,
        NotifyPolicy().repeat_interval if repeat is None else repeat,
        notify.send_resolved,
        tuple(action for action in notify.summary if _summary_fault(action) is None),
        NotifyPolicy().group_interval if interval is None else interval,
    )


def notify_faults(notify: Notify) -> Iterator[Fault]:
    """Yield a fault for each value that ``policy`` replaces by its default."""
    if _wait(notify) is None:
        text = f"{short(notify.group_wait)} is not a time from 0s to 15m, such as 10s"
        yield Fault(("notify", "group_wait"), text)
    if _interval(notify) is None:
        text = f"{short(notify.group_interval)} is not a time from 10s to 24h, such as 5m"
        yield Fault(("notify", "group_interval"), text)
    if _repeat(notify) is None:
        text = f"{short(notify.repeat_interval)} is not a time from 5m to 365d, such as 4h"
        yield Fault(("notify", "repeat_interval"), text)
    for at, action in enumerate(notify.summary):
        if fault := _summary_fault(action):
            yield Fault(("notify", "summary", at), fault)


def _wait(notify: Notify) -> float | None:
    wait = seconds(notify.group_wait)
    return wait if wait is not None and wait <= LONGEST_WAIT else None


def _interval(notify: Notify) -> float | None:
    interval = seconds(notify.group_interval)
    return interval if interval is not None and INTERVALS[0] <= interval <= INTERVALS[1] else None


def _repeat(notify: Notify) -> float | None:
    repeat = seconds(notify.repeat_interval)
    return repeat if repeat is not None and SHORTEST_REPEAT <= repeat <= _LONGEST_REPEAT else None


def _summary_fault(action: str) -> str | None:
    if fault := action_fault(action):
        return fault
    if action.partition(":")[0] in NOTIFYING:
        return None
    return f"{action!r} sends no notification: use one of {', '.join(NOTIFYING)}"
