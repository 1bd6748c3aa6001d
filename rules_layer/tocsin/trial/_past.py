"""A run as far as it has been evaluated, for a rule that reads it as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tocsin.model import Mode
from tocsin.tensors import Collections, IndexFile, NotFound, Storage, job_name
from tocsin.trial._catalog import Catalog
from tocsin.trial._create import WINDOW, source_of
from tocsin.trial._feed import Clock, Feed
from tocsin.trial._source import Source, Steps
from tocsin.trial._trial import Trial
from tocsin.trial._values import Values

MOST_FILES = 10_000  # of the steps before, where they have to be read: those that are nearest


class Glance(Trial):
    """A trial that waits for nothing: it raises StepNotYetAvailable at once."""

    def wait_for_steps(
        self,
        required_steps: Iterable[int],
        mode: Mode = Mode.GLOBAL,
        timeout: float | None = None,
    ) -> None:
        super().wait_for_steps(required_steps, mode, timeout=0.0)


@dataclass
class _Told:
    """What is known without looking: there is no news but what the catalog is given."""

    collections: Collections | None = None
    damaged: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_workers(self) -> int | None:
        return self.collections.num_workers if self.collections else None

    def refresh(self, *, force: bool = False) -> None:
        """There is nothing to be read."""


class PastTrial(Glance):
    """The steps of a run up to one of them, all of them complete; of the later ones nothing.

    ``beside`` opens another run, by the name that the rule's configuration gives it.
    """

    def __init__(self, storage: Storage, beside: Callable[[str], Trial]) -> None:
        catalog, self._told = Catalog(WINDOW), _Told()
        self._storage = storage
        self._watched = _Watched(source_of(storage, Steps()))
        self.beside = beside
        url = storage.url
        super().__init__(url, job_name(url), catalog, self._told, Values(self._watched), Clock())

    @property
    def last_step(self) -> int:
        """The step up to which it knows the run; -1 for none."""
        return self._catalog.last_complete

    def show(
        self, step: int, files: Iterable[IndexFile], collections: Collections | None = None
    ) -> None:
        """Make a step known, and what lies before it as complete."""
        for file in files:
            self._catalog.add(file.step, file.worker, file)
        self._catalog.last_complete = step
        self._told.collections = collections or self._told.collections

    def catch_up(self, step: int) -> None:
        """Read what was saved after ``last_step`` and up to ``step``."""
        source = source_of(self._storage, Steps(self.last_step + 1, step + 1))
        news = source.news(everything=True)[-MOST_FILES:]
        for index in source.indexes(news):
            if isinstance(index, IndexFile):
                self._catalog.add(index.step, index.worker, index)
        self._catalog.drop_replaced()
        self.show(step, ())

    def raise_trouble(self) -> None:
        """Raise what kept a rule from reading, if it was the storage and not the run."""
        trouble, self._watched.trouble = self._watched.trouble, None
        if trouble is not None:
            raise trouble


class _Watched:
    """A source that remembers trouble for which no rule is to blame."""

    def __init__(self, source: Source) -> None:
        self.trouble: Exception | None = None
        self._source = source
        self.remote = source.remote
        self.news, self.indexes = source.news, source.indexes

    def read(self, key: str, start: int, length: int, align: int = 0) -> bytes | memoryview:
        try:
            return self._source.read(key, start, length, align)
        except (NotFound, ValueError):  # the run's own: missing, too short, damaged
            raise
        except Exception as error:
            self.trouble = error
            raise


def glance(storage: Storage) -> Trial:
    """Another run as it is now; one without any step where there is none. NotFound: no bucket."""
    source, catalog, clock = source_of(storage, Steps()), Catalog(WINDOW), Clock()
    interval = 1.0 if source.remote else 0.0
    feed = Feed(storage, source, catalog, interval, clock)
    feed.refresh(force=True)
    return Glance(storage.url, job_name(storage.url), catalog, feed, Values(source), clock)
