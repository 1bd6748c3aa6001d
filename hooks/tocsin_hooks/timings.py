"""Durations of steps and of waits for data: every step, saved or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Generic, TypeVar

from tocsin.model import Mode

Batch = TypeVar("Batch", covariant=True)

_MOST = 1 << 18  # durations of a series that wait to be taken: there is nobody to take them


class Timings:
    """Collects durations in seconds. A training thread adds, another thread takes.

    A step ends where ``end`` was called last before the next one begins.
    """

    def __init__(self) -> None:
        self._series = {name: deque[float](maxlen=_MOST) for name in SERIES}
        self._between = self._series["between"]
        self._mode = Mode.TRAIN
        self._begun: float | None = None
        self._ended: float | None = None

    def begin(self, mode: Mode) -> None:
        """A step begins; the one before it is counted now, if it was not before."""
        now = perf_counter()
        if self._ended is not None:
            self._count()
            self._between.append(now - self._ended)
        self._mode = mode
        self._begun = now
        self._ended = None

    def end(self) -> None:
        """The current step has ended, unless this is called again before the next one begins."""
        self._ended = perf_counter()

    def ended_before(self) -> None:
        """The current step has ended, at the latest now."""
        if self._ended is None:
            self._ended = perf_counter()

    def waited(self, seconds: float) -> None:
        """The training has waited for data."""
        self._series["wait"].append(seconds)

    def forward(self, seconds: float) -> None:
        """A forward pass of the training took so long, on its device."""
        self._series["forward"].append(seconds)

    def take(self) -> dict[str, list[float]]:
        """Return the durations since the last call, by series, and clear them."""
        return {name: _emptied(series) for name, series in self._series.items()}

    def _count(self) -> None:
        """Add the current step to its series, once."""
        if self._begun is not None and self._ended is not None:
            name = self._mode.name if self._mode.name in self._series else Mode.TRAIN.name
            self._series[name].append(self._ended - self._begun)
            self._begun = None

    def finish(self) -> None:
        """The training is over: the last step counts, too."""
        self._count()


SERIES = ("TRAIN", "EVAL", "PREDICT", "wait", "between", "forward")
"""The series of durations: steps by mode, waits for data, the time between two steps, and
forward passes.
"""


class TimedLoader(Generic[Batch]):
    """Gives the batches of a loader, and measures how long each one was waited for."""

    def __init__(self, loader: Iterable[Batch], timings: Timings) -> None:
        self._loader = loader
        self._timings = timings

    def __iter__(self) -> Iterator[Batch]:
        begun = perf_counter()
        for batch in self._loader:
            self._timings.waited(perf_counter() - begun)
            yield batch
            begun = perf_counter()

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]  # as the loader itself, it may have none


def _emptied(series: deque[float]) -> list[float]:
    taken = []
    try:
        while True:
            taken.append(series.popleft())
    except IndexError:
        return taken
