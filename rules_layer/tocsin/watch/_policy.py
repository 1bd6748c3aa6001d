"""How a run's alerts are put together: ``notify`` of a watch file in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from reprlib import repr as short  # what a file says may be long

from tocsin.watch._actions import action_fault
from tocsin.watch._bad import Fault
from tocsin.watch._config import Notify
from tocsin.watch._times import seconds

LONGEST_WAIT = 900.0
SHORTEST_REPEAT = 300.0
_LONGEST_REPEAT = 365 * 86400.0  # the time of the next one must be a number that a table takes
_TELLING = ("email", "sms", "webhook")


@dataclass(frozen=True)
class Policy:
    """``group_wait`` seconds pass before what a run reports is told, in one message; what goes on
    is told again every ``repeat_interval`` seconds; ``send_resolved``: also when it is over.
    ``summary`` are the actions that tell how a job has ended.
    """

    group_wait: float = 10.0
    repeat_interval: float = 4 * 3600.0
    send_resolved: bool = True
    summary: tuple[str, ...] = ()


def policy(notify: Notify) -> Policy:
    """In numbers; what cannot be used is as if nothing were said."""
    wait, repeat = _wait(notify), _repeat(notify)
    return Policy(
        Policy.group_wait if wait is None else wait,
        Policy.repeat_interval if repeat is None else repeat,
        notify.send_resolved,
        tuple(action for action in notify.summary if _summary_fault(action) is None),
    )


def notify_faults(notify: Notify) -> Iterator[Fault]:
    """What ``policy`` passes over."""
    if _wait(notify) is None:
        text = f"{short(notify.group_wait)} is not a time from 0s to 15m, such as 10s"
        yield Fault(("notify", "group_wait"), text)
    if _repeat(notify) is None:
        text = f"{short(notify.repeat_interval)} is not a time from 5m to 365d, such as 4h"
        yield Fault(("notify", "repeat_interval"), text)
    for at, action in enumerate(notify.summary):
        if fault := _summary_fault(action):
            yield Fault(("notify", "summary", at), fault)


def _wait(notify: Notify) -> float | None:
    wait = seconds(notify.group_wait)
    return wait if wait is not None and wait <= LONGEST_WAIT else None


def _repeat(notify: Notify) -> float | None:
    repeat = seconds(notify.repeat_interval)
    return repeat if repeat is not None and SHORTEST_REPEAT <= repeat <= _LONGEST_REPEAT else None


def _summary_fault(action: str) -> str | None:
    if fault := action_fault(action):
        return fault
    if action.partition(":")[0] in _TELLING:
        return None
    return f"{action!r} tells nobody how a job ended: there are {', '.join(_TELLING)}"
