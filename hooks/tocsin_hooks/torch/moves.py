"""Events of a training, and what comes after what: a call of a module, or an update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

KNOWN = 2  # times that an event did the same after another one, until it is skipped there


class Source(Protocol):
    """Handles one kind of event: the start or the end of a module call or an update."""

    def repeat(self, subject: Any, samples: int) -> None:
        """Handle an event of this module or optimizer that was skipped."""


class Key(NamedTuple):
    """The identity of an event: who handles it, the identity of the module or optimizer, whether
    gradients are recorded, and the module's mode of training."""

    source: Source
    subject: int
    gradients: bool
    training: bool


@dataclass(eq=False, slots=True)
class Move:
    """An event that comes after another one.

    begins: whether a step of training begins with it.
    alike: how often in a row that was so.
    needed: how often it must have been, until the event is skipped.
    passed: how often it was skipped since the steps are followed.
    is_skipped: whether it may be skipped at present.
    after: the moves that may come next.
    """

    key: Key
    subject: Callable[[], Any]
    after: dict[Key, Move]
    begins: bool = False
    alike: int = 0
    needed: float = KNOWN
    passed: int = 0
    samples: int = 0
    is_skipped: bool = False

    def learn(self, *, begins: bool, needed: float, sure: float) -> None:
        """It was handled, and began a step or not; if it did something else, it is ``needed`` to
        be alike so often from now on, and ``sure`` times if it is not alike."""
        differs = bool(self.alike) and begins is not self.begins
        if differs or needed > KNOWN:
            self.alike, self.needed = 0, max(self.needed, needed, sure if differs else 0)
        self.begins = begins
        self.alike += 1


@dataclass
class Skipped:
    """The events that were only counted while steps were followed.

    steps: how many steps of training, each as one before.
    events: how many events of them there were, by source and subject.
    latest: the events of the last of these steps, in their order.
    """

    steps: int
    events: Mapping[tuple[Source, Any], int]
    latest: Sequence[Sequence[Move]] = field(default_factory=list)


def divided(moves: Iterable[Move]) -> list[list[Move]]:
    """Return events by steps; those before the first beginning come first, even if none are."""
    steps: list[list[Move]] = [[]]
    for move in moves:
        if move.begins:
            steps.append([])
        steps[-1].append(move)
    return steps
