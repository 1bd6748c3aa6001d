"""Opening a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tocsin.tensors import (
    COLLECTIONS,
    INDEX,
    BadCollections,
    LocalStorage,
    NotFound,
    Storage,
    job_name,
    open_storage,
)
from tocsin.trial.catalog import Catalog
from tocsin.trial.exceptions import MissingCollectionFiles, NotARun
from tocsin.trial.feed import Clock, Feed
from tocsin.trial.folder import Folder
from tocsin.trial.remote import Remote
from tocsin.trial.source import Source, StepRange
from tocsin.trial.trial import Trial
from tocsin.trial.values import Values

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
    """Return the run in a folder or at ``s3://bucket/prefix``, opened for reading.

    If a job was started several times into one run, the last start counts, with the steps that it
    resumed from. ``range_steps`` limits the trial to global steps, from the first up to but not
    including the second; it ignores starts that saved no step there. ``timeout`` is the number of
    seconds to wait for a run and for the collections files of all its workers. ``partial`` opens a
    run that ended without some of these files. ``refresh_interval`` is the number of seconds
    between two checks for new files: by default 1 in S3 and 0 in a folder. If more than
    ``incomplete_step_wait_window`` steps wait for a worker, all of them count as complete, except
    the newest half of such a window. ``client`` is a boto3 S3 client to use.

    Raises NotARun, at once or after the timeout, if there is no run; MissingCollectionFiles for a
    run that has ended without all of its collections files; BadCollections.

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


def snapshot(storage: Storage) -> Trial:
    """Return the run as it is now, whatever is missing of it: the trial never looks for new files.

    A run that says nowhere how many workers it has is taken to have those that have written.
    Raises NotARun.
    """
    source, catalog, clock = source_of(storage, StepRange()), Catalog(sys.maxsize), Clock()
    feed = Feed(storage, source, catalog, 0.0, clock)
    try:
        feed.refresh(force=True)
    except NotFound:  # the bucket
        raise not_a_run(storage) from None
    if feed.num_workers is None:
        catalog.settle(max(1, len(catalog.workers)), finished=False)
    trial = Trial(storage.url, job_name(storage.url), catalog, feed, Values(source), clock)
    trial.dynamic_refresh = False
    if not trial.workers() and COLLECTIONS not in trial.damaged:
        raise not_a_run(storage)
    return trial


def source_of(storage: Storage, steps: StepRange) -> Source:
    if isinstance(storage, LocalStorage):
        return Folder(storage, steps)
    return Remote(storage, steps)


def _steps(range_steps: tuple[int | None, int | None] | None) -> StepRange:
    if range_steps is None:
        return StepRange()
    first, end = range_steps
    if (first or 0) < 0 or (end is not None and end <= (first or 0)):
        raise ValueError(f"range_steps {range_steps} is not of the form (begin, end), begin < end")
    return StepRange(first, end)


def _open(
    storage: Storage, feed: Feed, catalog: Catalog, clock: Clock, timeout: float, *, partial: bool
) -> None:
    """Read what is there, and wait for what is not."""
    begin = clock.monotonic()
    while True:
        try:
            feed.refresh(force=True)
        except NotFound:  # the bucket
            raise not_a_run(storage) from None
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
            wait = "; pass timeout=60 to wait for a job that is about to begin"
            raise not_a_run(storage, f", after {timeout:g} s" if timeout > 0 else wait)
        clock.sleep(min(_POLL, left))


def not_a_run(storage: Storage, hint: str = "") -> NotARun:
    """Return why the place holds no run, with the place next to it that does."""
    try:
        if any(True for _ in storage.list(f"{_HOST}/{INDEX}")):
            hint = f"; did you mean {storage.url}/{_HOST}?"
    except NotFound:
        return NotARun(f"{storage.url} is not a run: there is no such bucket")
    return NotARun(f"{storage.url} is not a run: it has neither {INDEX} nor {COLLECTIONS}{hint}")
