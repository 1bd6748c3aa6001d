"""The stop guard: a bad rule must not end a night's work."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from tocsin.alerts.aws._items import Items

_KEY = "stop-guard"

Stops = Mapping[str, float]
"""When each run was stopped, in seconds since the epoch."""


@dataclass(frozen=True)
class StopLimit:
    """At most so many runs are stopped in any so many seconds."""

    most: int = 10
    seconds: float = 600.0


@dataclass(frozen=True)
class StopGuard:
    """Counts the runs that the whole deployment stops."""

    items: Items
    limit: StopLimit
    now: Callable[[], float]

    def may(self, run: str) -> str | None:
        """None, and the run is counted; or why it is not to be stopped."""
        name = hashlib.sha256(run.encode()).hexdigest()[:32]  # short, whatever the run is called

        def edit(body: bytes | None) -> tuple[bytes | None, str | None]:
            before = {} if body is None else msgspec.json.decode(body, type=dict[str, float])
            after = counted(before, name, self.limit, self.now())
            if after is None:
                return None, _refusal(self.limit)
            return msgspec.json.encode(after), None

        return self.items.change(_KEY, edit)


def counted(stops: Stops, run: str, limit: StopLimit, now: float) -> Stops | None:
    """The stops of the time that counts, with this one; None when it would be one too many. A run
    that is stopped once more counts once.
    """
    recent = {each: at for each, at in stops.items() if at > now - limit.seconds}
    if run not in recent and len(recent) >= limit.most:
        return None
    return {run: now, **recent}


def _refusal(limit: StopLimit) -> str:
    return (
        f"the stop guard refuses: {limit.most} jobs were stopped within {limit.seconds / 60:g} min,"
        " as many as this deployment may (stopGuard); see what is wrong with the rule, or stop "
        "the job yourself"
    )
