"""Limits of owners and of the whole deployment, counted in its table."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

import msgspec

from tocsin.actions import StopHeld
from tocsin.aws.dynamodb import Item, Table, number
from tocsin.events import timestamp
from tocsin.owners import SHARED, owner_of, refusal
from tocsin.parsing import StopLimit
from tocsin.words import clean

if TYPE_CHECKING:
    from tocsin.alerts import RunCaps

_STOPS_KEY = "stop-guard"
_REQUESTS_KEY = "stop-guard-files"
_MOST_ANSWERS = 10_000  # in the memory of an instance
_KEPT = 400 * 24 * 3600  # seconds; longer than any period
_TRIES = 10  # where others add names at the same time

Stop = tuple[float, str]
"""The time of a stop (seconds since the epoch), and its owner."""

Stops = Mapping[str, Stop]
"""By run."""

_decoder = msgspec.json.Decoder(dict[str, float | Stop])


@dataclass(frozen=True)
class StopGuard:
    """Limits how many runs are stopped, in case a rule is wrong.

    Requests to hooks are counted by themselves: they cost nothing, and anybody who may write to the
    bucket can bring them about.

    table: where the stops are stored.
    limit: how many runs of one owner may be stopped, within what time.
    ceiling: how many runs of all owners, within its time.
    now: the clock, in seconds since the epoch.
    owner: the owner of a run (URL).
    """

    table: Table
    limit: StopLimit
    ceiling: StopLimit
    now: Callable[[], float]
    owner: Callable[[str], str] = owner_of

    def may(self, run: str, by: str) -> StopHeld | None:
        """Return why the run must not be stopped now; None if it may, and then count the stop.

        by: ``sagemaker`` or ``hook``.
        """
        name, owner = _short(run), _short(self.owner(run))
        key = _REQUESTS_KEY if by == "hook" else _STOPS_KEY

        def edit(body: bytes | None) -> tuple[bytes | None, StopHeld | None]:
            read = {} if body is None else _decoder.decode(body)
            before = {each: (at, "") if isinstance(at, float) else at for each, at in read.items()}
            now, longest = self.now(), max(self.limit.seconds, self.ceiling.seconds)
            stops = {each: stop for each, stop in before.items() if stop[0] > now - longest}
            if name in stops:  # a run that is stopped again counts once
                return None, None
            free = free_at(stops.values(), owner, self.limit, self.ceiling)
            if free > now:
                return None, StopHeld(_refusal(self.limit, self.ceiling, free), free)
            return msgspec.json.encode({name: (now, owner), **stops}), None

        return self.table.change(key, edit)


def free_at(stops: Iterable[Stop], owner: str, limit: StopLimit, ceiling: StopLimit) -> float:
    """Return when one more run of the owner may be stopped (seconds since the epoch)."""
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
        f"the stop guard delays this stop until {timestamp(free)[:16]}Z: its limit is reached, "
        f"{_per(limit)} per owner (stopGuard) or {_per(ceiling)} in total (stopCeiling); check the "
        "rule, silence it, or stop the job yourself"
    )


def _per(limit: StopLimit) -> str:
    return f"{limit.most} within {limit.seconds / 60:g} min"


@dataclass(frozen=True)
class Cap:
    """The limit of a kind (``SHARED``) in its period.

    owner: of one owner's runs.
    everybody: of all runs.
    run: of one run; None where that is counted elsewhere.
    option: the option that changes them.
    """

    owner: int
    everybody: int
    run: int | None = None
    option: str = ""


_OF_SUBSCRIPTIONS = 100  # of the deployment in a month: a topic has at most 200 filter policies


def action_caps(texts: int, of_run: RunCaps) -> Mapping[str, Cap]:
    """Return the caps of owners and deployment on what ``act`` does: ``texts`` SMS in all, the
    others by what one run may use.

    Of what is scarce a run may use a quarter, and an owner half: SMS and subscriptions. Of the
    rest an owner may use as much as ten runs, and the deployment as much as a hundred.
    """
    most = _OF_SUBSCRIPTIONS
    return {
        "sms": Cap(max(math.ceil(texts / 2), of_run.texts), texts, option="smsMonthlyCap"),
        "email": Cap(10 * of_run.emails, 100 * of_run.emails, option="emailRunCap"),
        "webhook": Cap(10 * of_run.posts, 100 * of_run.posts, option="webhookRunCap"),
        "metric": Cap(10 * of_run.metrics, 100 * of_run.metrics, option="metricRunCap"),
        "subscription": Cap(most // 2, most, run=most // 4),
    }


def issue_caps(metrics: int) -> Mapping[str, Cap]:
    """Return the caps on the metrics that ``evaluate`` makes."""
    return {"issue": Cap(10 * metrics, 100 * metrics, run=metrics, option="metricRunCap")}


_Level = tuple[str, str, int]
"""A limit: the key of its item, whose it is, and the cap."""


@dataclass(frozen=True)
class Shares:
    """Counts what runs use of what all share: by run, owner and deployment, in an item for each
    with its period, such as ``sms#2026-11`` and ``sms#2026-11#owner#vision``.

    caps: by kind.
    owner: the owner of a run (URL).
    answers: why a name must not be used, or None, by the key of its run or owner and the name, as
        this instance knows: an answer holds for the period, and a run may ask at each step.
    """

    table: Table
    caps: Mapping[str, Cap]
    owner: Callable[[str], str]
    now: Callable[[], float]
    answers: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def take(self, kind: str, run: str, count: int = 1) -> str | None:
        """Count a use, or return why it is over a limit."""
        taken: list[str] = []
        for key, whose, cap in self._levels(kind, run):
            if not self._add(key, cap, count):
                for each in taken:
                    self._subtract(each, count)
                return refusal(kind, count, whose, cap, self._period(kind), self.caps[kind].option)
            taken.append(key)
        return None

    def give_back(self, kind: str, run: str, count: int = 1) -> None:
        """Subtract units that were counted in this period but not used."""
        for key, _, _ in self._levels(kind, run):
            self._subtract(key, count)

    def admit(self, kind: str, run: str, names: Collection[str]) -> Mapping[str, str]:
        """Return why names must not be used, by name, for those that must not.

        A name counts once in a period, however often it is used.
        """
        *own, of_all = self._levels(kind, run)
        key, _, _ = own[0]
        asked = [name for name in dict.fromkeys(names) if (key, name) not in self.answers]
        if len(self.answers) >= _MOST_ANSWERS:
            self.answers.clear()
            asked = [*dict.fromkeys(names)]
        if asked:
            refused = self._admit(kind, own, of_all, {_short(name): name for name in asked})
            self.answers.update({(key, name): refused.get(name) for name in asked})
        answers = {name: self.answers[key, name] for name in names}
        return {name: why for name, why in answers.items() if why is not None}

    def _admit(
        self, kind: str, own: Sequence[_Level], of_all: _Level, names: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Return why names, by what is stored of them, must not be used."""
        refused: dict[str, str] = {}

        def refuse(level: _Level, left_out: Iterable[str]) -> None:
            why = refusal(kind, 1, *level[1:], self._period(kind), self.caps[kind].option)
            refused.update({names[each]: why for each in left_out})

        left, new = [*names], list[str]()
        for level in own:
            key, _, cap = level
            admitted, new = self._add_names(key, cap, left)
            refuse(level, left_out=(each for each in left if each not in admitted))
            left = admitted
        all_key, _, most = of_all
        if new and not self._add(all_key, most, len(new)):
            counted = [*takewhile(lambda _: self._add(all_key, most, 1), new)]
            refuse(of_all, over := new[len(counted) :])
            self._update(key, "DELETE made :over", {":over": {"SS": over}})
        return refused

    def _levels(self, kind: str, run: str) -> list[_Level]:
        cap, owner, key = self.caps[kind], self.owner(run), f"{kind}#{self._period(kind)}"
        of_run = [] if cap.run is None else [(f"{key}#run#{run}", "this run's", cap.run)]
        whose = f"owner {clean(owner, 80) or '(none)'}'s"
        return [
            *of_run,
            (f"{key}#owner#{owner}", whose, cap.owner),
            (key, "this deployment's", cap.everybody),
        ]

    def _period(self, kind: str) -> str:
        return datetime.fromtimestamp(self.now(), UTC).strftime(SHARED[kind].period)

    def _add(self, key: str, cap: int, count: int) -> bool:
        if count > cap:
            return False
        values = {":count": number(count), ":room": number(cap - count)}
        condition = "attribute_not_exists(sent) OR sent <= :room"
        return self._update(key, "ADD sent :count", values, condition) is not None

    def _subtract(self, key: str, count: int) -> None:
        values = {":less": number(-count), ":count": number(count)}
        self._update(key, "ADD sent :less", values, "sent >= :count")

    def _add_names(self, key: str, cap: int, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the names for which there is room, and which of them are new."""
        for _ in range(_TRIES):
            made = (self.table.get(key) or {}).get("made", {}).get("SS", ())
            known = [name for name in names if name in made]
            new = [name for name in names if name not in made][: max(0, cap - len(made))]
            values = {":new": {"SS": new}, ":room": number(cap - len(new))}
            condition = "attribute_not_exists(made) OR size(made) <= :room"
            if not new or self._update(key, "ADD made :new", values, condition) is not None:
                return [*known, *new], new
        return known, []

    def _update(
        self, key: str, expression: str, values: Item, condition: str | None = None
    ) -> Item | None:
        """The item before the update; None where the condition does not hold."""
        values = {**values, ":expires": number(int(self.now()) + _KEPT)}
        expression = f"{expression} SET expires_at = :expires"
        return self.table.update(key, expression, values, condition, returned="ALL_OLD")
