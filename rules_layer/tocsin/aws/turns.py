"""Turns: how many invocations of ``act`` deliver at a time, each an item of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tocsin.aws.dynamodb import Table, number


@dataclass(frozen=True)
class Turns:
    """The items ``deliver#0``, ``deliver#1`` …, each taken until it is given back or that is over.

    most: at a time. ``act`` has one invocation more, which is free for decisions and stops.
    """

    table: Table
    most: int
    now: Callable[[], float]

    def take(self, owner: str, until: float) -> bool:
        """Takes a turn until then (seconds since the epoch); False if there is none."""
        values = {
            ":owner": {"S": owner},
            ":until": number(until),
            ":now": number(self.now()),
        }
        change = "SET taken_by = :owner, taken_until = :until"
        free = "attribute_not_exists(taken_until) OR taken_until <= :now"
        return any(self.table.update(key, change, values, free) is not None for key in self._keys)

    def give_back(self, owner: str) -> None:
        values = {":owner": {"S": owner}}
        for key in self._keys:
            self.table.update(key, "REMOVE taken_until", values, "taken_by = :owner")

    @property
    def _keys(self) -> list[str]:
        return [f"deliver#{turn}" for turn in range(self.most)]
