"""Runs that rules read as a whole, kept from one look to the next, and other runs by name."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.tensors import (
    BadIndex,
    Collections,
    IndexFile,
    NotFound,
    Object,
    RefusedFile,
    Storage,
    index_key,
    job_name,
    read_index,
)

if TYPE_CHECKING:
    from tocsin.trial import PastTrial, Trial

_MOST_RUNS = 3  # in memory, with what was read of them
_MOST_LETTERS = 900  # of a URL: keys of S3, at most 1024, follow it
_BUCKET = re.compile(r"s3://[A-Za-z0-9._-]{1,255}(?:/|$)")


@dataclass
class Trials:
    """A trial for each run that was looked at lately, which knows the run up to its frontier.

    Each is kept with the starts of the job that were superseded then.
    """

    _of: OrderedDict[str, tuple[PastTrial, tuple[str, ...]]] = field(default_factory=OrderedDict)

    def until(
        self,
        step: int,
        files: Iterable[IndexFile],
        collections: Collections | None,
        storage: Storage,
        before: Checkpoint,
        open_run: Callable[[str], Storage],
    ) -> PastTrial:
        """Return the run up to a step with these files.

        Earlier steps, which are evaluated in ``before``, are read only where this process has not
        seen them.
        """
        from tocsin.trial import PastTrial  # here: few rules read trials, and a cold start waits

        trial, superseded = self._of.pop(storage.url, (None, ()))
        # After a restart, which another process may have seen, the earlier steps are others.
        if trial is None or superseded != before.superseded or trial.last_step > before.frontier:
            trial = PastTrial(storage, _opener(storage.url, open_run))
        if trial.last_step < before.frontier:
            trial.catch_up(before.frontier)
        trial.show(step, files, collections)
        self._of[storage.url] = trial, before.superseded
        if len(self._of) > _MOST_RUNS:
            self._of.popitem(last=False)
        return trial


def beside(run: str, other: str) -> str:
    """Return the URL of a run that is named by one, or by the name of a job beside this run's.

    The other job's run has the same path as this one, but for the name of the job.
    Raises ValueError for what cannot be the URL of a run. S3's client would raise as well, but an
    error that looks as if S3 were in trouble.
    """
    url = other.rstrip("/")
    if "/" not in other:
        head, _, tail = run.rpartition(job_name(run))
        url = f"{head}{other}{tail}"
    if len(url) > _MOST_LETTERS or (url.startswith("s3:") and not _BUCKET.match(url)):
        raise ValueError(f"{url[:80]!r} is not of the form s3://bucket/prefix")
    return url


def same_files(storage: Storage, files: Iterable[IndexFile]) -> Iterator[IndexFile]:
    """Yield another run's index files of the same steps and workers that can be used."""
    for file in files:
        try:
            yield read_index(storage, Object(index_key(file.step, file.worker), 0, 0.0))
        except (NotFound, BadIndex, RefusedFile):
            continue


def _opener(url: str, open_run: Callable[[str], Storage]) -> Callable[[str], Trial]:
    """Open each other run once, by the name that a rule's configuration gives it."""
    from tocsin.trial import glance

    return cache(lambda run: glance(open_run(beside(url, run))))
