"""A live view of a run while its training writes it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tocsin.cli.output import Document
from tocsin.evaluation import Checkpoint, MemoryPublisher, Publisher
from tocsin.events import RunEvent, StatusChange
from tocsin.judge import Following, Several
from tocsin.report import Headline, History, Page, Trace, headline, page_of
from tocsin.report.curves import curves_of
from tocsin.report.parts import Curve
from tocsin.tensors import Storage
from tocsin.watch import Watch

_LOOKS = 30  # with a new step, over which the training's speed is measured


@dataclass(frozen=True)
class RunView:
    """The findings of one look.

    document: the JSON of ``tocsin check``.
    events: what the run published so far, the oldest first.
    rate: steps per second; None before there are two.
    idle: seconds since the last step was saved; None before the first.
    """

    document: Document
    headline: Headline
    losses: Sequence[Curve]
    events: Sequence[RunEvent]
    rate: float | None
    idle: float | None

    @property
    def changes(self) -> Sequence[StatusChange]:
        """The status changes so far."""
        return [event for event in self.events if isinstance(event, StatusChange)]


@dataclass
class RunWatch:
    """Polls a run. Each look reads new files and writes nothing.

    publisher: gets the events, too.
    on_view: called with the findings of each look.
    refresh: called first; brings a run up to date that is made of something else.
    """

    storage: Storage
    watch: Watch | None = None
    now: Callable[[], float] = time.time
    refresh: Callable[[], None] = lambda: None
    publisher: Publisher | None = None
    on_view: Callable[[RunView], object] = lambda view: None
    _news: MemoryPublisher = field(default_factory=MemoryPublisher)
    _trace: Trace = field(default_factory=Trace)

    def __post_init__(self) -> None:
        publisher = Several([self._news, *filter(None, (self.publisher,))])
        self._following = Following(
            self.storage, self.watch, self.now, publisher=publisher, on_verdict=self._trace.add
        )
        self._history = History(self.storage)
        self._losses: Sequence[Curve] = ()
        self._evaluated = -1
        self._times: deque[tuple[float, int]] = deque(maxlen=_LOOKS)

    def look(self, on_step: Callable[[int], None] = lambda step: None) -> RunView:
        """Read and evaluate new steps."""
        self.refresh()
        self._following.look(on_step)
        checkpoint, found = self._following.checkpoint, self._following.document
        if checkpoint.last_step is not None and checkpoint.steps != self._evaluated:
            self._evaluated = checkpoint.steps
            self._times.append((checkpoint.last_time, checkpoint.last_step))
            self._history.refresh()
            curves = curves_of(self._history, checkpoint.last_step, [])
            self._losses = [curve for curve in curves if curve.kind == "loss"]
        view = RunView(
            document=found,
            headline=headline(found),
            losses=self._losses,
            events=list(self._news.published),
            rate=_rate(checkpoint, self._times),
            idle=None if checkpoint.last_step is None else self.now() - checkpoint.last_time,
        )
        self.on_view(view)
        return view

    @property
    def checkpoint(self) -> Checkpoint:
        return self._following.checkpoint

    @property
    def version(self) -> object:
        """Another one when a look has found something new."""
        return self._following.version

    def page(self) -> Page:
        """Return the page of the report, up to the last look."""
        self._history.refresh()
        made = datetime.fromtimestamp(self.now(), UTC)
        return page_of(self._following.checkpoint, self._trace, self._history, made=made)


def _rate(checkpoint: Checkpoint, times: Sequence[tuple[float, int]]) -> float | None:
    """Return steps per second over the last looks, or over the whole run at first."""
    if checkpoint.last_step is None or checkpoint.first_step is None:
        return None
    last = (checkpoint.last_time, checkpoint.last_step)
    first = times[0] if times else last
    if first[0] >= last[0]:
        begun = last[0] if checkpoint.first_time is None else checkpoint.first_time
        first = (begun, checkpoint.first_step)
    seconds, steps = last[0] - first[0], last[1] - first[1]
    return steps / seconds if seconds > 0 and steps >= 0 else None
