"""``tocsin check``: evaluates rules over a whole run, and prints what they found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

from tocsin.cli.output import Document, progress
from tocsin.evaluation import Checkpoint, check, document
from tocsin.tensors import Storage
from tocsin.watch import Watch


def check_document(
    storage: Storage, watch: Watch | None, steps: int, *, tick: bool = False
) -> tuple[Document, list[str]]:
    """The JSON of ``tocsin check``, and notes about files. The engine is the one of Lambda.

    tick: whether rules are told the present time after the last step.
    """
    done = count(1)
    with progress("evaluating") as advance:
        advance(0, steps)
        checkpoint, report = check(
            storage, watch, tick=tick, on_step=lambda step: advance(next(done), steps)
        )
    return document(checkpoint), [*_without_end(checkpoint, time.time()), *report.log]


def _without_end(checkpoint: Checkpoint, now: float) -> Iterator[str]:
    """Whether a run that has not ended still trains, people see by when it saved last."""
    if checkpoint.ended != "marker" and checkpoint.last_step is not None:
        yield f"no end marker, last step {_age(now - checkpoint.last_time)} ago"


def _age(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h``, ``2 days``."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 * size if unit == "days" else size):
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"
