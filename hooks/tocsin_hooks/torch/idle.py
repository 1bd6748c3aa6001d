"""Steps of training that repeat the last ones, and that nothing looks at: they cost nothing."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from time import monotonic
from typing import Any, NamedTuple, Protocol
from weakref import ref

import torch
from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard

_LONGEST = 4  # steps, until they repeat
_MOST_EVENTS = 512  # of a step
_EVENT = 2e-6  # seconds of CPU time that an event takes which is skipped


class Source(Protocol):
    """Handles one kind of event: a call of a module or an update, begun or ended."""

    def repeat(self, subject: Any, samples: int) -> None:
        """Handle an event of this module or optimizer that was skipped."""


class Event(NamedTuple):
    """An event as it was seen. ``begins``: a step of training begins with it."""

    source: Source
    subject: Callable[[], Any]
    gradients: bool
    trains: bool
    begins: bool = False


class IdleSteps:
    """Skips the events of steps that are like the ones before, while these are not saved.

    ``skips`` is asked first at each event. At first it only remembers them. When a few steps have
    repeated, and ``follow`` says that nothing looks at the next ones, each event is compared with
    the one that is expected, and that is all. This ends at the first event that differs, or that
    begins a step which may be saved. ``catch_up`` gets the number of the steps that went by, and of
    their events; those of the step in hand are handled belatedly.
    """

    def __init__(
        self, hook: Hook, catch_up: Callable[[int, Mapping[tuple[Source, Any], int]], None]
    ) -> None:
        self._hook = hook
        self._catch_up = catch_up
        self._events: list[Event] = []  # of the step in hand
        self._steps = deque[tuple[Event, ...]](maxlen=2 * _LONGEST)  # before it
        self._samples: dict[Source, int] = {}  # that a module was last given
        self._cycle: list[tuple[Event, ...]] = []  # the steps that are followed
        self._expected: tuple[Event, ...] = ()  # their events
        self._at = -1  # of these the next one; below 0 none is followed
        self._passed = 0  # events since then
        self._skipped = self._left = 0  # steps begun since then, and to come
        self._until = 0.0
        self._news = hook.news
        self._counters = hook.counters
        self.repeats = False
        """Whether events are handled belatedly at present."""

    def skips(self, source: Source, subject: Any) -> bool:
        """Return whether an event needs no more than this."""
        if self._at >= 0:
            event = self._expected[self._at]
            if (
                event.source is source
                and event.subject() is subject
                and event.gradients is torch.is_grad_enabled()
                and (not event.trains or subject.training)
            ):
                if not event.begins:
                    self._at = (self._at + 1) % len(self._expected)
                    self._passed += 1
                    return True
                if self._left and not self._news.heard and monotonic() < self._until:
                    self._left -= 1
                    self._skipped += 1
                    self._passed += 1
                    self._counters[Mode.TRAIN] += 1
                    self._counters[Mode.GLOBAL] += 1
                    self._at = (self._at + 1) % len(self._expected)
                    return True
        with Guard(self._hook.trouble, "a step is not captured"):
            self.stop()
            trains = bool(getattr(subject, "training", False))
            self._events.append(Event(source, ref(subject), torch.is_grad_enabled(), trains))
        return False

    def failed(self, error: Exception) -> None:
        """Follow nothing more: ``skips`` raised this. Its callers catch it, as a guard in it would
        cost each event more than the event itself."""
        self._at = -1
        with suppress(Exception):
            self._hook.trouble("a step is not captured", error)

    @property
    def follows(self) -> bool:
        """Whether events are skipped at present."""
        return self._at >= 0

    def given(self, samples: int) -> None:
        """The event in hand is a call with so many samples."""
        if self._events:
            self._samples[self._events[-1].source] = samples

    def forget(self) -> None:
        """Something happens that is not to be repeated."""
        if not self.repeats:
            self.stop()
            self._events.clear()
            self._steps.clear()

    def begins(self) -> None:
        """The event in hand begins a step of training."""
        if self.repeats:
            return
        if not self._events or len(self._events) > _MOST_EVENTS:
            self.forget()
            return
        *before, event = self._events
        self._steps.append(tuple(before))
        self._events = [event._replace(begins=True)]

    def follow(self, turns: Iterable[int | None]) -> None:
        """Skip what repeats from the next event on: nothing looks at the step in hand.

        ``turns``: what may count for the interval, see ``Hook.idle_steps``. Passes without
        gradients are not skipped: how many there are shows a model that acts.
        """
        cycle = [] if self.repeats else self._repeated()
        if not cycle or not all(event.gradients for event in chain.from_iterable(cycle)):
            return
        idle = [self._hook.idle_steps(Mode.TRAIN, turn) for turn in turns]
        self._left, self._until = min(each[0] for each in idle), min(each[1] for each in idle)
        if self._left > 0 and len(cycle[0]) > 1:
            self._cycle, self._expected = cycle, tuple(chain.from_iterable(cycle))
            self._news, self._counters = self._hook.news, self._hook.counters
            self._at, self._passed, self._skipped = 1, 0, 0

    def stop(self) -> None:
        """Skip no more, and make up for what was skipped."""
        if self._at < 0:
            return
        between, self._at = self._expected[self._at].begins, -1
        self._news.heard = False
        cycle, skipped = self._cycle, self._skipped
        whole = skipped if between else max(0, skipped - 1)
        times = [len(range(at or len(cycle), whole + 1, len(cycle))) for at in range(len(cycle))]
        own = cycle[0][1 : 1 + self._passed]  # of the step that was begun before all others
        passed = len(own) + sum(len(each) * n for each, n in zip(cycle, times, strict=True))
        last = cycle[skipped % len(cycle)][: self._passed - passed]
        self.repeats = True
        try:
            self._hook.spent(_EVENT * self._passed)
            self._repeat(own)
            if skipped > whole:  # its beginning counts the step in hand again
                self._counters[Mode.TRAIN] -= 1
                self._counters[Mode.GLOBAL] -= 1
            if whole:
                numbers = Counter[tuple[Source, Any]]()
                for step, n in zip(cycle, times, strict=True):
                    for event in step:
                        numbers[event.source, event.subject()] += n
                self._catch_up(whole, numbers)
            self._repeat(last)
        finally:
            self.repeats = False
        known = range(max(0, skipped - 2 * _LONGEST), skipped)
        self._steps.extend(cycle[each % len(cycle)] for each in known)
        self._events = [*(cycle[0][:1] + own if not skipped else last)]
        if between and skipped:
            self._events = [*cycle[skipped % len(cycle)]]

    def _repeat(self, events: Iterable[Event]) -> None:
        for event in events:
            if (subject := event.subject()) is not None:
                event.source.repeat(subject, self._samples.get(event.source, 0))

    def _repeated(self) -> list[tuple[Event, ...]]:
        """Return the fewest steps that have just come twice, the next of which has begun."""
        steps = [*self._steps]
        for length in range(1, len(steps) // 2 + 1):
            cycle = steps[-length:]
            if cycle == steps[-2 * length : -length] and cycle[0][:1] == tuple(self._events):
                return cycle
        return []
