"""Turns: how many invocations do something at a time, each turn an item of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tocsin.aws.dynamodb import Table, number


@dataclass(frozen=True)
class Turns:
    """The items ``deliver#0``, ``deliver#1`` …, each taken until it is given back or that is over.

    most: at a time.
    what: the first part of the items' keys.
    """

    table: Table
    most: int
    now: Callable[[], float]
    what: str = "deliver"

    def take(self, taker: str, until: float) -> bool:
        """Take a turn until then (seconds since the epoch). Return False if there is none."""
        values = {
            ":taker": {"S": taker},
            ":until": number(until),
            ":now": number(self.now()),
        }
        change = "SET taken_by = :taker, taken_until = :until"
        free = "attribute_not_exists(taken_until) OR taken_until <= :now"
        return any(self.table.update(key, change, values, free) is not None for key in self._keys)

    def give_back(self, taker: str) -> None:
        """Give back the turn of ``taker``, if it has one."""
        values = {":taker": {"S": taker}}
        for key in self._keys:
            self.table.update(key, "REMOVE taken_until", values, "taken_by = :taker")

    @property
    def _keys(self) -> list[str]:
        return [f"{self.what}#{turn}" for turn in range(self.most)]
