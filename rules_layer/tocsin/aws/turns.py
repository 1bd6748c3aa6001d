"""Turns: how many invocations of ``act`` deliver at a time, counted in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tocsin.aws.dynamodb import Table

_KEY = "deliveries"

_decoder = msgspec.json.Decoder(dict[str, float])


@dataclass(frozen=True)
class Turns:
    """The invocations that deliver, each until it gives its turn back or is over.

    most: at a time. ``act`` has one invocation more, which is free for decisions and stops.
    """

    table: Table
    most: int
    now: Callable[[], float]

    def take(self, owner: str, until: float) -> bool:
        """Takes a turn until then (seconds since the epoch); False if there is none."""

        def edit(body: bytes | None) -> tuple[bytes | None, bool]:
            turns = self._present(body)
            if owner not in turns and len(turns) >= self.most:
                return None, False
            return msgspec.json.encode({**turns, owner: until}), True

        return self.table.change(_KEY, edit)

    def give_back(self, owner: str) -> None:
        def edit(body: bytes | None) -> tuple[bytes | None, None]:
            turns = self._present(body)
            rest = {each: until for each, until in turns.items() if each != owner}
            return (msgspec.json.encode(rest) if rest != turns else None), None

        self.table.change(_KEY, edit)

    def _present(self, body: bytes | None) -> dict[str, float]:
        turns = {} if body is None else _decoder.decode(body)
        return {owner: until for owner, until in turns.items() if until > self.now()}
