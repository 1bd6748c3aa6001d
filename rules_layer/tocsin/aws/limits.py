"""Limits of the whole deployment, counted in its table: the stop guard and the cap on SMS."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from tocsin.actions import StopHeld
from tocsin.aws.dynamodb import Table, number
from tocsin.events import timestamp
from tocsin.parsing import StopLimit

_STOPS_KEY = "stop-guard"
_REQUESTS_KEY = "stop-guard-files"
_TEXTS_KEPT = 400 * 24 * 3600  # seconds

Stop = tuple[float, str]
"""When a run was stopped (seconds since the epoch), and whose stop it is."""

Stops = Mapping[str, Stop]
"""By run."""

_decoder = msgspec.json.Decoder(dict[str, float | Stop])


@dataclass(frozen=True)
class StopGuard:
    """Limits how many runs are stopped, in case a rule is wrong.

    Requests to hooks (``folder:``) are counted by themselves: they cost nothing, and anybody who
    may write to the bucket can bring them about.

    table: where the stops are stored.
    limit: how many runs of one owner may be stopped, within what time.
    ceiling: how many runs of all owners, within its time.
    now: the clock, in seconds since the epoch.
    """

    table: Table
    limit: StopLimit
    ceiling: StopLimit
    now: Callable[[], float]

    def may(self, run: str, owner: str) -> StopHeld | None:
        """Why the run must not be stopped now; None if it may, and then it is counted."""
        name, by = _short(run), _short(owner)
        key = _REQUESTS_KEY if owner.startswith("folder:") else _STOPS_KEY

        def edit(body: bytes | None) -> tuple[bytes | None, StopHeld | None]:
            read = {} if body is None else _decoder.decode(body)
            before = {each: (at, "") if isinstance(at, float) else at for each, at in read.items()}
            now, longest = self.now(), max(self.limit.seconds, self.ceiling.seconds)
            stops = {each: stop for each, stop in before.items() if stop[0] > now - longest}
            if name in stops:  # a run that is stopped again counts once
                return None, None
            free = free_at(stops.values(), by, self.limit, self.ceiling)
            if free > now:
                return None, StopHeld(_refusal(self.limit, self.ceiling, free), free)
            return msgspec.json.encode({name: (now, by), **stops}), None

        return self.table.change(key, edit)


def free_at(stops: Iterable[Stop], owner: str, limit: StopLimit, ceiling: StopLimit) -> float:
    """When one more run of the owner may be stopped (seconds since the epoch)."""
    times = list(stops)
    mine = [at for at, other in times if other == owner]
    return max(_free(mine, limit), _free([at for at, _ in times], ceiling))


def _free(stops: Sequence[float], limit: StopLimit) -> float:
    last = sorted(stops)[-limit.most :]
    return last[0] + limit.seconds if len(last) == limit.most else 0.0


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:24]  # short, whatever the run is called


def _refusal(limit: StopLimit, ceiling: StopLimit, free: float) -> str:
    return (
        f"the stop guard holds this back until {timestamp(free)[:16]}Z: as many jobs were stopped "
        f"as may be, {_per(limit)} of one prefix (stopGuard) or {_per(ceiling)} in all "
        "(stopCeiling); see what is wrong with the rule, silence it, or stop the job yourself"
    )


def _per(limit: StopLimit) -> str:
    return f"{limit.most} within {limit.seconds / 60:g} min"


@dataclass(frozen=True)
class TextCap:
    """Counts the SMS of a month (UTC), which cost money, in an item ``sms#2026-11``."""

    table: Table
    cap: int
    now: Callable[[], float]

    def may(self, texts: int) -> str | None:
        """Why so many more must not be sent; None if they may, and then they are counted."""
        month = datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m")
        if texts > self.cap or not self._counted(month, texts):
            return (
                f"{texts} SMS more would pass this deployment's cap of {self.cap} in {month} "
                "(smsMonthlyCap)"
            )
        return None

    def give_back(self, texts: int) -> None:
        """Counts so many less, which were counted in this month and not sent."""
        month = datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m")
        values = {":less": number(-texts), ":texts": number(texts)}
        self.table.update(f"sms#{month}", "ADD sent :less", values, "sent >= :texts")

    def _counted(self, month: str, texts: int) -> bool:
        values = {
            ":texts": number(texts),
            ":room": number(self.cap - texts),
            ":expires": number(int(self.now()) + _TEXTS_KEPT),
        }
        condition = "attribute_not_exists(sent) OR sent <= :room"
        expression = "ADD sent :texts SET expires_at = :expires"
        return self.table.update(f"sms#{month}", expression, values, condition) is not None
