"""Limits of one run on shared resources: SMS, e-mails, posts, metrics."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tocsin.actions import CapReached, Effects, TopicMessage
from tocsin.owners import SHARED, refusal

SUMMARY = "summary "
"""The kind of spending that messages at the run's end are."""

Spent = Mapping[str, int]
"""The number of each kind, such as ``email 2026-11-22``; each metric has a key of its own."""


@dataclass(frozen=True)
class RunCaps:
    """The most of one run.

    texts: SMS in a month.
    emails: e-mails in a day, by whatever action.
    metrics: metrics of its rules, ever: CloudWatch bills each name with its dimensions.
    posts: posts to webhooks in a day.
    """

    texts: int = 25
    emails: int = 100
    metrics: int = 100
    posts: int = 100

    def of(self, kind: str) -> tuple[int, str]:
        """Return the cap on a kind that has a period, and the option that changes it."""
        caps = {
            "sms": (self.texts, "smsRunCap"),
            "email": (self.emails, "emailRunCap"),
            "webhook": (self.posts, "webhookRunCap"),
        }
        return caps[kind]


@dataclass
class Spending:
    """Counts the use of an action: ``added`` to what the run has ``spent``.

    reserved: SMS that earlier tries of the same action have counted, and not sent.
    kind: SUMMARY for messages at the run's end. They use up nothing that alerts need.
    """

    spent: Spent
    caps: RunCaps
    now: float
    reserved: Spent = field(default_factory=dict)
    kind: str = ""
    added: dict[str, int] = field(default_factory=dict)

    def within_caps(self, run: str, effects: Effects) -> Effects:
        """Return the effects, as far as the run and its owner have not used up their shares. A mail
        or a post that was not sent does not count.
        """

        def reserve(kind: str, run: str, count: int) -> str | None:
            key = self._key(kind)
            if kind == "sms" and self.reserved.get(key, 0) >= count:
                return None
            most, option = self.caps.of(kind)
            if self._total(key) + count > most:
                period = key.rpartition(" ")[2]
                return refusal(kind, count, "this run's", most, period, option)
            if why := effects.reserve(kind, run, count):
                return why
            self._add(key, count)
            if kind == "sms":
                self.reserved = {key: count}
            return None

        def publish(message: TopicMessage) -> None:
            if "email" in message.texts:
                spend("email", lambda: effects.publish(message))
            else:
                effects.publish(message)

        def post(name: str, event: Mapping[str, Any], delivery: str) -> None:
            spend("webhook", lambda: effects.post(name, event, delivery))

        def put_metric(name: str, value: float, labels: Mapping[str, str]) -> None:
            named = hashlib.sha256(f"{name}|{sorted(labels.items())}".encode()).hexdigest()
            key = f"metric {named[:10]}"
            if self._total(key):
                effects.put_metric(name, value, labels)
                return
            if sum(each.startswith("metric ") for each in {**self.spent, **self.added}) >= (
                self.caps.metrics
            ):
                raise CapReached(
                    f"this run has {self.caps.metrics} metrics, the most that a run may have "
                    "(metricRunCap)"
                )
            if why := effects.reserve("metric", run, 1):
                raise CapReached(why)
            self._add(key, 1)
            effects.put_metric(name, value, labels)

        def spend(kind: str, do: Callable[[], None]) -> None:
            if why := reserve(kind, run, 1):
                raise CapReached(why)
            try:
                do()
            except Exception:
                effects.release(kind, run, 1)
                self._add(self._key(kind), -1)
                raise

        return replace(effects, reserve=reserve, publish=publish, post=post, put_metric=put_metric)

    def added_to(self, spent: Spent) -> Spent:
        """Return the counts of the run including this action, without past days and months."""
        present = ("metric ", *map(self._period, ("sms", "email", "webhook")))
        kept = {
            key: count
            for key, count in spent.items()
            if key.removeprefix(SUMMARY).startswith(present)
        }
        return {**kept, **{key: kept.get(key, 0) + count for key, count in self.added.items()}}

    def give_back(self, run: str, effects: Effects) -> None:
        """Give back the SMS that were counted and not sent; those of a month that is over are
        forgotten.
        """
        if count := self.reserved.get(self._key("sms"), 0):
            effects.release("sms", run, count)
            self._add(self._key("sms"), -count)
        self.reserved = {}

    def _key(self, kind: str) -> str:
        return f"{self.kind}{self._period(kind)}"

    def _period(self, kind: str) -> str:
        """The kind with its present period, in UTC."""
        return f"{kind} {datetime.fromtimestamp(self.now, UTC):{SHARED[kind].period}}"

    def _total(self, key: str) -> int:
        return self.spent.get(key, 0) + self.added.get(key, 0)

    def _add(self, key: str, count: int) -> None:
        self.added[key] = self.added.get(key, 0) + count
