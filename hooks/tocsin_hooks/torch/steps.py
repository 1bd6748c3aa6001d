"""Training steps: the forward passes that belong together."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

_MOST_FORWARDS = 64
_LONGEST_EPISODE = 2000  # forward passes, between which surely no gradients are computed
_REMEMBERED = 4
_LONGEST_CYCLE = 16  # updates, until optimizers repeat their turns


class StepDetector:
    """Decides for each forward pass in training whether a step begins with it.

    One does if an optimizer has updated the model since the last one began; the others are
    further micro-batches of it (accumulated gradients). An optimizer may be skipped (loss scaling
    after an overflow): so a step has no more forward passes than the last few had between two
    updates, except while gradients are still those of the last update: then none was skipped. As
    long as no update has been seen, a step begins where there are no gradients yet, and nothing
    that an earlier pass has computed is given to the model. With ``accumulate`` given, it is that
    many passes, or fewer where an update comes earlier.

    Without an optimizer, and with gradients that are set to zero instead of None, the first step
    is 64 passes long, and each pass is a step from then on: ``accumulate=1`` is for those.
    """

    def __init__(self, accumulate: int | None = None) -> None:
        if accumulate is not None and accumulate < 1:
            raise ValueError(f"accumulate is {accumulate}, but must be at least 1")
        self._fixed = accumulate is not None
        self._usual = accumulate
        self._guessed = False  # the usual number, as nobody had updated the model for long
        self._between = deque[int](maxlen=_REMEMBERED)
        self._training = False
        self._updated = False
        self._updating = False
        self._evaluations = 0  # by the optimizer that is updating
        self._passes = 0
        self._since_update = 0
        self._since_free = 0  # or since an update
        self.begun = 0
        """Steps so far."""

    def begins(
        self, is_free: Callable[[], bool], none_computed: Callable[[], bool] = lambda: False
    ) -> bool:
        """Count a forward pass in training; whether it is the first of a step. It may be one as
        long as no update has been seen, if it ``is_free``. ``none_computed``: whether it is sure
        that there were no gradients since the last update."""
        first = not self._training or self._updated or self._complete(is_free, none_computed)
        if first:
            self._training, self._updated = True, False
            self._passes = 0
            self.begun += 1
        self._passes += 1
        self._since_update += 1
        self._since_free += 1
        self._evaluations += self._updating
        return first

    @property
    def is_first(self) -> bool:
        """Return whether the first step continues, before the first visible update has begun."""
        return self.begun == 1 and not self._updating and not self._updated

    @property
    def again(self) -> bool:
        """Return whether an optimizer has had the loss computed before, to find where to go."""
        return self._evaluations > 1

    def updating(self) -> None:
        """An optimizer begins to update the model, and will have the loss computed by itself:
        once, or many times.
        """
        self._updating = True
        self._evaluations = 0

    def updated(self) -> None:
        """Record an update of the model."""
        self._updating, self._updated = False, True
        self._evaluations = 0
        passes, self._since_update = self._since_update, 0
        self._since_free = 0
        if passes and not self._fixed:
            known = self._usual is not None and not self._guessed
            skipped = known and passes % (self._usual or 1) == 0
            self._between.append(self._usual if self._usual and skipped else passes)
            self._usual, self._guessed = min(max(self._between), _MOST_FORWARDS), False

    def left(self) -> None:
        """Something else than training begins."""
        self._training = False

    def _complete(self, is_free: Callable[[], bool], none_computed: Callable[[], bool]) -> bool:
        if self._updating:
            return False
        if self._usual is not None:
            if self._passes < self._usual:
                return False
            return self._fixed or self._passes >= _LONGEST_EPISODE or not none_computed()
        if self._since_free >= _MOST_FORWARDS:
            self._usual, self._guessed = 1, True
            return True
        free = is_free()
        if free:
            self._since_free = 0
        return free


class Turns:
    """Predicts which optimizer updates next if several take turns, as in a GAN.

    Each has an interval of its own then: else it would be the same one's steps that are saved.
    """

    def __init__(self) -> None:
        self._numbers = WeakKeyDictionary[Any, int]()
        self._counts = Counter[int]()
        self._latest = deque[int](maxlen=2 * _LONGEST_CYCLE)

    def updated(self, optimizer: Any) -> None:
        number = self._numbers.setdefault(optimizer, len(self._counts))
        self._counts[number] += 1
        self._latest.append(number)

    @property
    def counts(self) -> tuple[int, ...]:
        """The updates so far by each of several optimizers; empty if there is one only."""
        return tuple(self._counts.values()) if len(self._counts) > 1 else ()

    def skipped(self, optimizer: Any, updates: int) -> None:
        """Count further updates of the model by that optimizer."""
        if optimizer in self._numbers:
            self._counts[self._numbers[optimizer]] += updates

    def latest(self, optimizers: Iterable[Any]) -> None:
        """These have updated the model last, in this order, and are counted."""
        self._latest += (self._numbers[each] for each in optimizers if each in self._numbers)

    def next(self) -> int | None:
        """Return the updates so far by the one that is next; None if there is one only, or no
        cycle."""
        if len(self._counts) < 2:
            return None
        latest = [*self._latest]
        for cycle in range(2, len(latest) // 2 + 1):
            last = latest[-cycle:]
            if len({*last}) > 1 and last == latest[-2 * cycle : -cycle]:
                return self._counts[last[0]]
        return None
