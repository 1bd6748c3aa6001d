"""Skips the events of training steps that no check needs: these steps cost almost nothing."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from math import inf
from time import monotonic
from typing import Any
from weakref import ref

import torch
from tocsin.model import Mode
from torch import is_grad_enabled

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.torch.moves import KNOWN, Key, Move, Skipped, Source, divided

_SURE = 100  # the same, of an event that once did something else
_MOST_EVENTS = 4096  # of a step
_EVENT = 5e-6  # seconds of CPU time that an event takes which is skipped


class IdleSteps:
    """Skips events that repeat the sequence of earlier steps, while no step is saved.

    ``skips`` is asked first at each event. At first it only learns which event comes after which,
    and whether a step of training begins with it. Once ``follow`` says that nothing looks at the
    next steps, an event that is known in its place is counted, and that is all. This ends at an
    event that is not known there, and at the beginning of a step that may be saved. ``catch_up``
    gets what has gone by; the events of the current step are handled belatedly.

    A step is not longer than the longest one before: an optimizer may be skipped, as after an
    overflow, and then only the number of passes shows that another step has begun. ``passes`` are
    those of a step, where the script has said it.
    """

    def __init__(
        self, hook: Hook, catch_up: Callable[[Skipped], None], passes: int | None = None
    ) -> None:
        self._hook = hook
        self._sure = max(_SURE, (passes or 0) + 1)
        self._catch_up = catch_up
        self._after: dict[Key, dict[Key, Move]] = {}
        self._last: Key | None = None  # event
        self._current: Move | None = None  # is being handled
        self._begins, self._needed = False, float(KNOWN)  # what is known of it
        self._length = self._longest = 0  # events of the current step, and of any step
        self._moves: dict[Key, Move] | None = None  # that are expected now; None: follows nothing
        self._passed = deque[Move](maxlen=_MOST_EVENTS)
        self._own: list[Move] = []  # of the current step when it began to follow
        self._skipped = self._left = 0  # steps begun since then, and to come
        self._events = 0  # since then
        self._until = 0.0
        self._news = hook.news
        self._counters = hook.counters
        self.repeats = False
        """True while events are handled belatedly."""
        self.was_training: bool | None = None
        """The mode of the model when the event came that is handled belatedly."""

    def skips(self, source: Source, subject: Any) -> bool:
        """Return whether an event needs no more than this."""
        between = False
        if self._moves is not None:
            training = getattr(subject, "training", False)
            # A plain tuple equals a Key, and is made in less time.
            key: Any = source, id(subject), is_grad_enabled(), training
            move = self._moves.get(key)
            if move is not None and move.is_skipped and move.subject() is subject:
                if not move.begins:
                    if self._length < self._longest:
                        self._length += 1
                        self._events += 1
                        move.passed += 1
                        self._passed.append(move)
                        self._moves = move.after
                        return True
                elif self._left and not self._news.heard and monotonic() < self._until:
                    if not self._skipped:
                        self._own = [*self._passed]
                    self._left -= 1
                    self._skipped += 1
                    self._events += 1
                    self._length = 1
                    self._counters[Mode.TRAIN] += 1
                    self._counters[Mode.GLOBAL] += 1
                    move.passed += 1
                    self._passed.append(move)
                    self._moves = move.after
                    return True
                else:
                    between = True
        with Guard(self._hook.trouble, "a step is not captured"):
            self._stop(between=between)
            self._meet(source, subject)
        return False

    def failed(self, error: Exception) -> None:
        """Follow nothing more: ``skips`` raised this. Its callers catch it, as a guard in it would
        cost each event more than the event itself."""
        self._moves = None
        with suppress(Exception):
            self._hook.trouble("a step is not captured", error)

    @property
    def follows(self) -> bool:
        """Return whether events are skipped at present."""
        return self._moves is not None

    def given(self, samples: int) -> None:
        """Record that the current event is a call with so many samples."""
        if self._current is not None and not self.repeats:
            self._current.samples = samples

    def begins(self) -> None:
        """Record that the current event begins a step of training."""
        if not self.repeats:
            self._begins = True
            self._longest = min(max(self._longest, self._length - 1), _MOST_EVENTS)
            self._length = 1

    def differs(self) -> None:
        """Record that the current event begins something other than a step of training."""
        if not self.repeats:
            self._needed = self._sure

    def never(self) -> None:
        """Do not skip the current event when it occurs again at this place."""
        if not self.repeats:
            self._needed = inf

    def forget(self) -> None:
        """Handle something that is not an event: the next event has no predecessor."""
        if not self.repeats:
            self._stop(between=False)
            self._learn()
            self._last = None

    def follow(self, turns: Iterable[int | None], *, acts: bool) -> None:
        """Skip known events from the next one on: no check needs the current step.

        ``turns``: what may count for the interval, see ``Hook.idle_steps``. Passes without
        gradients are only skipped if it is known that the model ``acts``: how many there are shows
        that.
        """
        if self.repeats or self._current is None or not self._longest:
            return
        idle = [self._hook.idle_steps(Mode.TRAIN, turn) for turn in turns]
        self._left, self._until = min(each[0] for each in idle), min(each[1] for each in idle)
        if self._left <= 0:
            return
        for move in self._every_move():
            known = move.alike >= move.needed
            move.is_skipped = known and (acts or move.key.gradients)
            move.passed = 0
        self._news, self._counters = self._hook.news, self._hook.counters
        self._moves = self._current.after
        self._passed.clear()
        self._own, self._skipped, self._events = [], 0, 0

    def _meet(self, source: Source, subject: Any) -> None:
        """Learn from the previous event, and make this one the current event."""
        self._learn()
        training = getattr(subject, "training", False)
        key = Key(source, id(subject), is_grad_enabled(), training)
        before = self._after.setdefault(self._last, {}) if self._last is not None else {}
        move = before.get(key)
        if move is None or move.subject() is not subject:
            move = before[key] = Move(key, ref(subject), self._after.setdefault(key, {}))
        self._current, self._last = move, key
        self._begins, self._needed = False, float(KNOWN)
        self._length += 1

    def _learn(self) -> None:
        if self._current is not None:
            self._current.learn(begins=self._begins, needed=self._needed, sure=self._sure)
            self._current = None

    def _every_move(self) -> Iterable[Move]:
        return chain.from_iterable(each.values() for each in self._after.values())

    def _stop(self, *, between: bool) -> None:
        """Skip no more, and make up for what was skipped. ``between``: the last step that was
        skipped has come to its end."""
        if self._moves is None:
            return
        self._moves = None
        self._news.heard = False
        self._learn()
        steps = divided(self._passed)
        own = self._own if self._skipped else steps.pop()
        last = steps.pop() if self._skipped and not between else []
        self._last = self._passed[-1].key if self._passed else self._last
        self._hook.spent(_EVENT * self._events)
        self.repeats = True
        try:
            self._repeat(own)
            if last:  # its beginning counts the current step again
                self._counters[Mode.TRAIN] -= 1
                self._counters[Mode.GLOBAL] -= 1
            whole = self._skipped - bool(last)
            if whole:
                self._catch_up(Skipped(whole, self._counted(own, last), steps[1:]))
            self._repeat(last)
        finally:
            self.repeats, self.was_training = False, None

    def _counted(
        self, own: Iterable[Move], last: Iterable[Move]
    ) -> Mapping[tuple[Source, Any], int]:
        """Return how many events were skipped, but for those of the first and the last step."""
        found = Counter[tuple[Source, Any]]()
        for move in self._every_move():
            if move.passed:
                found[move.key.source, move.subject()] += move.passed
        for move in chain(own, last):
            found[move.key.source, move.subject()] -= 1
        return found

    def _repeat(self, moves: Iterable[Move]) -> None:
        for move in moves:
            if (subject := move.subject()) is not None:
                self.was_training = move.key.training
                with torch.set_grad_enabled(move.key.gradients):
                    move.key.source.repeat(subject, move.samples)
