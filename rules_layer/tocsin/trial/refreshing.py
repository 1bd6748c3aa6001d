"""Switches whether a trial looks for new files before it answers; by default it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar


class Refreshing(Protocol):
    """A trial, as far as it looks for new files."""

    dynamic_refresh: bool


Trials = TypeVar("Trials", bound=Refreshing | Sequence[Refreshing])


@contextmanager
def no_refresh(trials: Trials) -> Iterator[Trials]:
    """In this context, the trials read no new index files, and answer from those read so far."""
    with _set(trials, on=False):
        yield trials


@contextmanager
def refresh(trials: Trials) -> Iterator[Trials]:
    """In this context, the trials read new files before they answer, even in ``no_refresh``."""
    with _set(trials, on=True):
        yield trials


@contextmanager
def _set(trials: Refreshing | Sequence[Refreshing], *, on: bool) -> Iterator[None]:
    each = list(trials) if isinstance(trials, Sequence) else [trials]
    before = [trial.dynamic_refresh for trial in each]
    try:
        for trial in each:
            trial.dynamic_refresh = on
        yield
    finally:
        for trial, was in zip(each, before, strict=True):
            trial.dynamic_refresh = was
