"""The position of a training: its steps, counted by mode and in total."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.model import Mode

Resumed = int | Mapping[str, int]


class Position:
    """Numbers steps from 0, or from the position of a checkpoint.

    ``resumed`` is the ``counts`` of the position at the checkpoint, or the last step that is in
    it: then every mode is counted on from there.
    """

    def __init__(self, resumed: Resumed | None = None) -> None:
        if resumed is None:
            self._next = dict.fromkeys(Mode, 0)
        elif isinstance(resumed, int):
            self._next = dict.fromkeys(Mode, resumed + 1)
        else:
            self._next = {mode: int(resumed.get(mode.name, 0)) for mode in Mode}
        if min(self._next.values()) < 0:
            raise ValueError(f"resumed_from is {resumed}, but steps are counted from 0 on")
        done = self._next[Mode.GLOBAL]
        self.resumed_from = done - 1 if done else None

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of begun steps by mode; GLOBAL counts all modes."""
        return {mode.name: count for mode, count in self._next.items()}

    @property
    def counters(self) -> dict[Mode, int]:
        """The counters themselves, for whoever begins steps without ``advance``."""
        return self._next

    def advance(self, mode: Mode) -> tuple[int, int]:
        """Begin a step. Return its global number and its number in its mode."""
        numbers = self._next[Mode.GLOBAL], self._next[mode]
        for counter in {mode, Mode.GLOBAL}:
            self._next[counter] += 1
        return numbers
