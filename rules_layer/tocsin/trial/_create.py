"""Opening a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tocsin.tensors import (
    BadCollections,
    LocalStorage,
    NotARun,
    NotFound,
    Storage,
    job_name,
    open_storage,
)
from tocsin.trial._catalog import Catalog
from tocsin.trial._exceptions import MissingCollectionFiles
from tocsin.trial._feed import COLLECTIONS, Clock, Feed
from tocsin.trial._folder import Folder
from tocsin.trial._remote import Remote
from tocsin.trial._source import Source, Steps
from tocsin.trial._trial import Trial
from tocsin.trial._values import Values

WINDOW = 1000
_POLL = 1.0  # s
_REMOTE_INTERVAL = 1.0  # s
_HOST = "debug-output"  # where SageMaker's own jobs have their run, below the job's folder


def create_trial(
    path: str | Path,
    name: str | None = None,
    profiler: bool = False,
    *,
    range_steps: tuple[int | None, int | None] | None = None,
    timeout: float = 0.0,
    partial: bool = False,
    refresh_interval: float | None = None,
    incomplete_step_wait_window: int = WINDOW,
    client: Any = None,
    clock: Clock | None = None,
) -> Trial:
    """The run in a folder or at ``s3://bucket/prefix``, opened for reading.

    If a job was started several times into one run, the last start counts, with the steps that it
    resumed from. ``range_steps`` is the global steps to look at, from the first up to but not
    including the second; nothing is known of starts that saved no step there. ``timeout`` is how
    many seconds to wait for a run, and for the collections files of all its workers, to appear.
    ``partial`` opens a run that ended without all of those. ``refresh_interval`` is how many
    seconds pass between looks for news: by default 1 in S3 and 0 in a folder. Once more than
    ``incomplete_step_wait_window`` steps wait for a worker, they count as complete but for the
    newest half. ``client`` is a boto3 S3 client to use.

    Raises NotARun at once, or after the timeout, where there is no run; MissingCollectionFiles
    for a run that has ended without all of its collections files; BadCollections.

    Example:
        >>> trial = create_trial("s3://bucket/jobs/j1/debug-output")
        >>> trial.tensor("loss").values(mode=modes.TRAIN)
    """
    if profiler:
        raise ValueError("profiler data is not read: a trial reads the tensors of a run")
    storage = open_storage(path.strip() if isinstance(path, str) else path, client)
    source = source_of(storage, _steps(range_steps))
    if refresh_interval is None:
        refresh_interval = _REMOTE_INTERVAL if source.remote else 0.0
    clock = clock or Clock()
    catalog = Catalog(incomplete_step_wait_window)
    feed = Feed(storage, source, catalog, refresh_interval, clock)
    _open(storage, feed, catalog, clock, timeout, partial=partial)
    return Trial(storage.url, name or job_name(storage.url), catalog, feed, Values(source), clock)


def source_of(storage: Storage, steps: Steps) -> Source:
    if isinstance(storage, LocalStorage):
        return Folder(storage, steps)
    return Remote(storage, steps)


def _steps(range_steps: tuple[int | None, int | None] | None) -> Steps:
    if range_steps is None:
        return Steps()
    first, end = range_steps
    if (first or 0) < 0 or (end is not None and end <= (first or 0)):
        raise ValueError(f"range_steps {range_steps} is not of the form (begin, end), begin < end")
    return Steps(first, end)


def _open(
    storage: Storage, feed: Feed, catalog: Catalog, clock: Clock, timeout: float, *, partial: bool
) -> None:
    """Read what is there, and wait for what is not."""
    begin = clock.monotonic()
    while True:
        try:
            feed.refresh(force=True)
        except NotFound:  # the bucket
            raise NotARun(f"{storage.url} is not a run: there is no such bucket") from None
        if not feed.missing:
            return
        if COLLECTIONS in feed.damaged and not partial:
            raise BadCollections(feed.damaged[COLLECTIONS])
        if catalog.finished:
            if partial and catalog.workers:
                return
            found = feed.collections
            expected = found.num_workers if found else None
            raise MissingCollectionFiles(storage.url, len(found.workers) if found else 0, expected)
        left = timeout - (clock.monotonic() - begin)
        if left <= 0:
            if feed.collections is not None or catalog.workers:
                return  # it has begun; the files of the other workers are read when they come
            raise _not_a_run(storage, timeout)
        clock.sleep(min(_POLL, left))


def _not_a_run(storage: Storage, timeout: float) -> NotARun:
    hint = "; pass timeout=60 to wait for a job that is about to begin"
    if timeout > 0:
        hint = f", after {timeout:g} s"
    if any(True for _ in storage.list(f"{_HOST}/index/")):
        hint = f"; did you mean {storage.url}/{_HOST}?"
    return NotARun(f"{storage.url} is not a run: it has neither index/ nor collections/{hint}")
