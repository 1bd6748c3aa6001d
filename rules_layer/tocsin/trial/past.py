"""A run as far as it has been evaluated, for a rule that reads it as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tocsin.model import Mode
from tocsin.tensors import Collections, IndexFile, NotFound, Storage, job_name
from tocsin.trial.catalog import Catalog
from tocsin.trial.create import WINDOW, source_of
from tocsin.trial.feed import Clock, Feed
from tocsin.trial.source import Source, StepRange
from tocsin.trial.trial import Trial
from tocsin.trial.values import Values

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
class _FixedFeed:
    """Looks for nothing: the catalog knows the files that it is given."""

    collections: Collections | None = None
    damaged: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_workers(self) -> int | None:
        return self.collections.num_workers if self.collections else None

    def refresh(self, *, force: bool = False) -> None:
        """Read nothing."""


class PastTrial(Glance):
    """A run up to one of its steps: those are complete, and nothing is known of later ones.

    ``beside`` opens another run, by the name that the rule's configuration gives it.
    """

    def __init__(self, storage: Storage, beside: Callable[[str], Trial]) -> None:
        catalog, self._fixed = Catalog(WINDOW), _FixedFeed()
        self._storage = storage
        self._watched = _Watched(source_of(storage, StepRange()))
        self.beside = beside
        url = storage.url
        super().__init__(url, job_name(url), catalog, self._fixed, Values(self._watched), Clock())

    @property
    def last_step(self) -> int:
        """The step up to which it knows the run; -1 for none."""
        return self._catalog.last_complete

    def show(
        self, step: int, files: Iterable[IndexFile], collections: Collections | None = None
    ) -> None:
        """Make a step known, and all steps before it as complete."""
        for file in files:
            self._catalog.add(file.step, file.worker, file)
        self._catalog.last_complete = step
        self._fixed.collections = collections or self._fixed.collections

    def catch_up(self, step: int) -> None:
        """Read what was saved after ``last_step`` and up to ``step``."""
        source = source_of(self._storage, StepRange(self.last_step + 1, step + 1))
        found = source.new_files(everything=True)[-MOST_FILES:]
        for index in source.indexes(found):
            if isinstance(index, IndexFile):
                self._catalog.add(index.step, index.worker, index)
        self._catalog.drop_replaced()
        self.show(step, ())

    def raise_trouble(self) -> None:
        """Raise the error that kept a rule from reading, unless the run itself is to blame."""
        trouble, self._watched.trouble = self._watched.trouble, None
        if trouble is not None:
            raise trouble


class _Watched:
    """A source that remembers trouble for which no rule is to blame."""

    def __init__(self, source: Source) -> None:
        self.trouble: Exception | None = None
        self._source = source
        self.remote = source.remote
        self.new_files, self.indexes = source.new_files, source.indexes

    def read(self, key: str, start: int, length: int, align: int = 0) -> bytes | memoryview:
        try:
            return self._source.read(key, start, length, align)
        except (NotFound, ValueError):  # the run's own: missing, too short, damaged
            raise
        except Exception as error:
            self.trouble = error
            raise


def glance(storage: Storage) -> Trial:
    """Return another run as it is now, without any step where there is none. Raises NotFound for a
    missing bucket.
    """
    source, catalog, clock = source_of(storage, StepRange()), Catalog(WINDOW), Clock()
    interval = 1.0 if source.remote else 0.0
    feed = Feed(storage, source, catalog, interval, clock)
    feed.refresh(force=True)
    return Glance(storage.url, job_name(storage.url), catalog, feed, Values(source), clock)
