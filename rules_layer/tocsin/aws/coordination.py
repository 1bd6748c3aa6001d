"""The coordination item of each run, and which runs a job has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tocsin.aws.dynamodb import Item, Table, due_shard, number
from tocsin.aws.settings import RUN_PREFIX
from tocsin.evaluation import Lease, Trouble, pause_after

T = TypeVar("T")

_JOB_DAYS = 30 * 24 * 3600
_RUN_DAYS = 90 * 24 * 3600
KNOWN_HELD = 10.0  # seconds for which a process takes a run to be held that it has found held
_MOST_KNOWN = 1000  # runs
_MOST_KEYS = 200  # of files named since the last look; a restart shows in many
_ROOM = "attribute_not_exists(file_keys) OR size(file_keys) < :most"


@dataclass(frozen=True)
class DynamoCoordination:
    """Hints, lease and attempts as attributes of one small item; every change is atomic.

    held: until when this process takes a run to be held. A hint for it then is one call and not
        two: the notifications of a run with a backlog are many, and delay those of the others.
    """

    table: Table
    now: Callable[[], float]
    held: dict[str, float] = field(default_factory=dict)

    def hint(self, run: str, keys: Sequence[str] = ()) -> None:
        self._hint(run, keys)

    def take(
        self, run: str, owner: str, now: float, until: float, keys: Sequence[str] = ()
    ) -> Lease | None:
        is_known = self.held.pop(run, now) > now
        item = None if is_known else self._take(run, owner, now, until, keys)
        if item is None:
            item = self._hint(run, keys)
            if _owner(item) != owner:  # else the answer was lost, and botocore has asked again
                if _owner(item) is not None and _time(item, "lease_until", now) >= now:
                    self._remember_held(run, min(now + KNOWN_HELD, _time(item, "lease_until", now)))
                    return None
                item = self._take(run, owner, now, until, ())  # given back meanwhile
        if item is None:
            return None
        attempts, due_at = _count(item, "attempts"), _time(item, "due_at", None)
        outages = _count(item, "outages")
        if due_at is None or attempts > 1:
            due_at = until + pause_after(attempts - 1)
            self._pause(run, owner, due_at)
        suspect: str = item.get("at_work", {}).get("S", "")
        hints, keys = _count(item, "hints"), _keys(item)
        return Lease(run, owner, hints, attempts, keys, due_at, outages, suspect)

    def release(
        self, lease: Lease, due_at: float | None, *, last: bool = False, attempts: int = 0
    ) -> Lease | None:
        values: Item = {
            ":owner": {"S": lease.owner},
            ":attempts": number(attempts),
            ":expires": number(int(self.now()) + _RUN_DAYS),
        }
        expression = "SET attempts = :attempts, expires_at = :expires"
        removes = " REMOVE lease_owner, lease_until, at_work, outages, trouble"
        if due_at is None:
            removes += ", due_shard, due_at"
        elif due_at != lease.due_at:
            expression += ", due_shard = :shard, due_at = :due"
            values |= {":shard": due_shard(_run_key(lease.run)), ":due": number(due_at)}
        expression += removes
        if lease.keys:
            expression += " DELETE file_keys :keys"
            values[":keys"] = {"SS": list(lease.keys)}
        condition = "lease_owner = :owner"
        if not last:
            condition += " AND hints = :hints"
            values[":hints"] = number(lease.hints)
        key = _run_key(lease.run)
        if self.table.update(key, expression, values, condition) is not None:
            return None
        item = self.table.get(key) or {}
        if _owner(item) != lease.owner:
            return None
        return replace(lease, hints=_count(item, "hints"), keys=_keys(item), suspect="")

    def abandon(
        self,
        lease: Lease,
        *,
        attempts: int,
        until: float | None,
        outages: int = 0,
        trouble: str = "",
    ) -> None:
        values: Item = {
            ":owner": {"S": lease.owner},
            ":attempts": number(attempts),
            ":outages": number(outages),
            ":trouble": {"S": trouble},
        }
        expression = "SET attempts = :attempts, outages = :outages, trouble = :trouble"
        removes = " REMOVE at_work" if outages else ""  # a service failed, and not that rule
        if until is None:
            removes = " REMOVE at_work, lease_owner, lease_until"
        else:
            expression += ", lease_until = :until, due_shard = :shard, due_at = :until"
            values |= {":until": number(until), ":shard": due_shard(_run_key(lease.run))}
        expression += removes
        self.table.update(_run_key(lease.run), expression, values, "lease_owner = :owner")

    def note(self, lease: Lease, rule: str) -> None:
        values: Item = {":owner": {"S": lease.owner}}
        expression = "REMOVE at_work"
        if rule:
            expression = "SET at_work = :rule"
            values[":rule"] = {"S": rule}
        self.table.update(_run_key(lease.run), expression, values, "lease_owner = :owner")

    def trouble(self, run: str) -> Trouble | None:
        item = self.table.get(_run_key(run)) or {}
        reason: str = item.get("trouble", {}).get("S", "")
        return Trouble(reason, _time(item, "lease_until", 0.0)) if reason else None

    def _remember_held(self, run: str, until: float) -> None:
        while len(self.held) >= _MOST_KNOWN:
            self.held.pop(next(iter(self.held)))
        self.held[run] = until

    def _hint(self, run: str, keys: Sequence[str]) -> Item:
        """The item with one more hint; its keys are left out where there are too many of them."""
        one = {":one": number(1)}
        if keys:
            values = {**one, ":keys": _set(keys), ":most": number(_MOST_KEYS)}
            added = "ADD hints :one, file_keys :keys"
            if (item := self.table.update(_run_key(run), added, values, _ROOM)) is not None:
                return item
        return self.table.update(_run_key(run), "ADD hints :one", one) or {}

    def _take(
        self, run: str, owner: str, now: float, until: float, keys: Sequence[str]
    ) -> Item | None:
        """The item with one more hint and the lease; None if it is held, or has many keys."""
        values: Item = {
            ":owner": {"S": owner},
            ":until": number(until),
            ":now": number(now),
            ":one": number(1),
        }
        expression = "SET lease_owner = :owner, lease_until = :until ADD hints :one, attempts :one"
        condition = "(attribute_not_exists(lease_owner) OR lease_until < :now)"
        if keys:
            expression += ", file_keys :keys"
            condition += f" AND ({_ROOM})"
            values |= {":keys": _set(keys), ":most": number(_MOST_KEYS)}
        return self.table.update(_run_key(run), expression, values, condition)

    def _pause(self, run: str, owner: str, until: float) -> None:
        """The patrol evaluates the run at ``until``, unless the lease is released earlier."""
        shard = due_shard(_run_key(run))
        values = {":owner": {"S": owner}, ":until": number(until), ":shard": shard}
        expression = "SET lease_until = :until, due_shard = :shard, due_at = :until"
        self.table.update(_run_key(run), expression, values, "lease_owner = :owner")

    def remember_job(self, job: str, run: str) -> None:
        self.table.update(
            _job_key(job),
            "ADD runs :run SET expires_at = :expires",
            {
                ":run": {"SS": [run]},
                ":expires": number(int(self.now()) + _JOB_DAYS),
            },
        )

    def runs_of(self, job: str) -> Sequence[str]:
        item = self.table.get(_job_key(job)) or {}
        return sorted(item.get("runs", {}).get("SS", ()))


def _run_key(run: str) -> str:
    return f"{RUN_PREFIX}{run}"


def _job_key(job: str) -> str:
    return f"job#{job}"


def _keys(item: Item) -> tuple[str, ...]:
    return tuple(sorted(item.get("file_keys", {}).get("SS", ())))


def _set(keys: Sequence[str]) -> Item:
    return {"SS": sorted(set(keys))}


def _owner(item: Item) -> str | None:
    owner: str | None = item.get("lease_owner", {}).get("S")
    return owner


def _time(item: Item, name: str, otherwise: T) -> float | T:
    return float(item[name]["N"]) if name in item else otherwise


def _count(item: Item, name: str) -> int:
    return int(float(item.get(name, {}).get("N", "0")))
