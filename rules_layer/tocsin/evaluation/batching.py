"""A batch of messages: one look per run, and no message waits long for another run."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter

from tocsin.evaluation.messages import BadMessage, Hint, JobEnded, parse_message
from tocsin.owners import owner_of

PATIENCE = 2.0  # seconds that a message waits for the others of its batch

HandOn = Callable[[Collection[str]], Collection[str]]
"""Sends messages, by their ids, to the queue again as new ones; returns the ids not taken."""


@dataclass(frozen=True)
class Work:
    """A run to look at, or a job that has ended, and the ids of the messages that say so."""

    subject: Hint | JobEnded
    ids: frozenset[str]

    @property
    def continues(self) -> bool:
        return isinstance(self.subject, Hint) and self.subject.continues


@dataclass
class Failures:
    """The ids of the messages that failed, and why."""

    ids: set[str] = field(default_factory=set)
    errors: list[Exception] = field(default_factory=list)

    def add(self, ids: Collection[str], error: Exception) -> None:
        self.ids.update(ids)
        self.errors.append(error)


def handle_batch(
    bodies: Mapping[str, str],
    handle: Callable[[Hint | JobEnded], None],
    hand_on: HandOn,
    *,
    owner: Callable[[str], str] = owner_of,
    patience: float = PATIENCE,
) -> Failures:
    """Handles messages, ``bodies`` by their ids, in their order, those of one run together.

    Owners take turns: each has one run (URL) looked at before another has its second. A run that
    continues with its backlog comes last: it takes its whole share of the time. What has
    not begun after ``patience`` seconds is handed on to another invocation; that is not a failure.
    A message that fails, fails only itself and the others of its run.
    """
    failures = Failures()
    waiting = deque(in_turns(gather(bodies, failures), owner))

    def hand_on_rest() -> None:
        late = {id_ for work in _taken(waiting) for id_ in work.ids}
        try:
            failures.ids.update(hand_on(late) if late else ())
        except Exception as error:  # noqa: BLE001  # a thread's error would be lost, and they
            failures.add(late, error)

    # A thread, because a look cannot be interrupted: one step may take the invocation's whole time.
    timer = threading.Timer(patience, hand_on_rest)
    timer.daemon = True
    timer.start()
    try:
        for work in _taken(waiting):
            try:
                handle(work.subject)
            except Exception as error:  # noqa: BLE001  # the other runs are none the worse for it
                failures.add(work.ids, error)
    finally:
        timer.cancel()
        timer.join()
    return failures


def in_turns(found: Iterable[Work], owner: Callable[[str], str]) -> list[Work]:
    """Order work: the first run of each owner, then the second of each; continued ones last."""
    runs_before, ranked = Counter[str](), list[tuple[bool, int, Work]]()
    for work in found:
        subject = work.subject
        whose = owner(subject.run) if isinstance(subject, Hint) else ""
        ranked.append((work.continues, runs_before[whose], work))
        runs_before[whose] += 1
    return [work for *_, work in sorted(ranked, key=itemgetter(0, 1))]


def gather(bodies: Mapping[str, str], failures: Failures) -> list[Work]:
    """Return one piece of work for each run and each job; a message that cannot be read fails."""
    found: dict[str | JobEnded, Work] = {}
    for id_, body in bodies.items():
        try:
            subjects = parse_message(body)
        except BadMessage as error:
            failures.add([id_], error)
            continue
        for subject in subjects:
            key = subject.run if isinstance(subject, Hint) else subject
            before = found.get(key, Work(subject, frozenset()))
            found[key] = Work(_merged(before.subject, subject), before.ids | {id_})
    return list(found.values())


def _merged(one: Hint | JobEnded, other: Hint | JobEnded) -> Hint | JobEnded:
    """Two hints of a run as one: all files that they name, at the later time."""
    if not isinstance(one, Hint) or not isinstance(other, Hint):
        return one
    ticks = [hint.tick for hint in (one, other) if hint.tick is not None]
    keys = tuple(dict.fromkeys((*one.keys, *other.keys)))
    return replace(
        one,
        keys=keys,
        tick=max(ticks, default=None),
        continues=one.continues or other.continues,
        configures=one.configures or other.configures,
    )


def _taken(waiting: deque[Work]) -> Iterator[Work]:
    """The work from the front on, each piece taken once, whichever thread asks."""
    while True:
        try:
            yield waiting.popleft()
        except IndexError:
            return
