"""The stop guard: limits how many runs the deployment stops, in case a rule is wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from tocsin.alerts.aws._items import Items
from tocsin.parsing import StopLimit

_KEY = "stop-guard"

Stops = Mapping[str, float]
"""When each run was stopped, in seconds since the epoch."""

_decoder = msgspec.json.Decoder(dict[str, float])


@dataclass(frozen=True)
class StopGuard:
    """Counts the runs that the whole deployment stops.

    items: where the stops are stored.
    limit: how many runs may be stopped, within what time.
    now: the clock, in seconds since the epoch.
    """

    items: Items
    limit: StopLimit
    now: Callable[[], float]

    def may(self, run: str) -> str | None:
        """Why the run must not be stopped; None if it may, and then it is counted."""
        name = hashlib.sha256(run.encode()).hexdigest()[:32]  # short, whatever the run is called

        def edit(body: bytes | None) -> tuple[bytes | None, str | None]:
            before = {} if body is None else _decoder.decode(body)
            after = counted(before, name, self.limit, self.now())
            if after is None:
                return None, _refusal(self.limit)
            return msgspec.json.encode(after), None

        return self.items.change(_KEY, edit)


def counted(stops: Stops, run: str, limit: StopLimit, now: float) -> Stops | None:
    """The stops within the limit's time, this one included; None if that is one too many.

    A run that is stopped again counts once.
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
