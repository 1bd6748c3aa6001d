"""What one run may use of the things that all runs share: SMS, e-mails, metrics."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tocsin.actions import CapReached, Effects, TopicMessage

SUMMARY = "summary "
"""The kind of spending that messages at the run's end are."""

Spent = Mapping[str, int]
"""How many of each kind, such as ``email 2026-11-22``; each metric has a key of its own."""


@dataclass(frozen=True)
class RunCaps:
    """The most of one run.

    texts: SMS in a month.
    emails: e-mails in a day, by whatever action.
    metrics: metrics of its rules, ever: CloudWatch bills each name with its dimensions.
    """

    texts: int = 25
    emails: int = 100
    metrics: int = 100


@dataclass
class Spending:
    """Counts what an action uses: ``added`` to what the run has ``spent`` before.

    reserved: SMS that earlier tries of the same action have counted, and not sent.
    kind: SUMMARY for messages at the run's end. They use up nothing that alerts need.
    """

    spent: Spent
    caps: RunCaps
    now: float
    reserved: Spent = field(default_factory=dict)
    kind: str = ""
    added: dict[str, int] = field(default_factory=dict)

    def within_caps(self, effects: Effects) -> Effects:
        """The effects, as far as the run has not used up its share. A month and a day are UTC's."""
        at = datetime.fromtimestamp(self.now, UTC)

        def reserve_texts(count: int) -> str | None:
            key = self._texts_key
            if self.reserved.get(key, 0) >= count:
                return None
            if self._total(key) + count > self.caps.texts:
                return (
                    f"{count} SMS more would pass this run's cap of {self.caps.texts} in "
                    f"{at:%Y-%m} (smsRunCap)"
                )
            if why := effects.reserve_texts(count):
                return why
            self._add(key, count)
            self.reserved = {key: count}
            return None

        def publish(message: TopicMessage) -> None:
            key = f"{self.kind}email {at:%Y-%m-%d}"
            if "email" in message.texts:
                if self._total(key) >= self.caps.emails:
                    raise CapReached(
                        f"this run has sent {self.caps.emails} e-mails on {at:%Y-%m-%d}, as many "
                        "as one may (emailRunCap)"
                    )
                self._add(key, 1)
            effects.publish(message)

        def put_metric(name: str, value: float, labels: Mapping[str, str]) -> None:
            named = hashlib.sha256(f"{name}|{sorted(labels.items())}".encode()).hexdigest()
            key = f"metric {named[:10]}"
            if not self._total(key):
                if sum(each.startswith("metric ") for each in {**self.spent, **self.added}) >= (
                    self.caps.metrics
                ):
                    raise CapReached(
                        f"this run has {self.caps.metrics} metrics, as many as one may "
                        "(metricRunCap)"
                    )
                self._add(key, 1)
            effects.put_metric(name, value, labels)

        return replace(effects, reserve_texts=reserve_texts, publish=publish, put_metric=put_metric)

    def added_to(self, spent: Spent) -> Spent:
        """What the run has spent with this; days and months that are over are forgotten."""
        at = datetime.fromtimestamp(self.now, UTC)
        present = ("metric ", f"sms {at:%Y-%m}", f"email {at:%Y-%m-%d}")
        kept = {
            key: count
            for key, count in spent.items()
            if key.removeprefix(SUMMARY).startswith(present)
        }
        return {**kept, **{key: kept.get(key, 0) + count for key, count in self.added.items()}}

    def give_back(self, effects: Effects) -> None:
        """Gives back the SMS that were counted and not sent; those of a month that is over are
        forgotten.
        """
        if count := self.reserved.get(self._texts_key, 0):
            effects.release_texts(count)
            self._add(self._texts_key, -count)
        self.reserved = {}

    @property
    def _texts_key(self) -> str:
        return f"{self.kind}sms {datetime.fromtimestamp(self.now, UTC):%Y-%m}"

    def _total(self, key: str) -> int:
        return self.spent.get(key, 0) + self.added.get(key, 0)

    def _add(self, key: str, count: int) -> None:
        self.added[key] = self.added.get(key, 0) + count
