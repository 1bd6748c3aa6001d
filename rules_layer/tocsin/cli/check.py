"""``tocsin check``: evaluates rules over a whole run, and prints their findings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import count

from tocsin.cli.display import age
from tocsin.cli.output import Document, progress
from tocsin.evaluation import Checkpoint, check, document
from tocsin.evaluation.halves import check_in_halves, has_halves
from tocsin.tensors import Storage
from tocsin.watch import Watch

_SILENT = 3600.0  # s


def check_document(
    storage: Storage,
    watch: Watch | None,
    steps: int,
    *,
    tick: bool = False,
    others: Sequence[Storage] = (),
) -> tuple[Document, list[str]]:
    """Return the JSON of ``tocsin check``, and notes about files. The engine is the one of Lambda.

    A run without an end marker that has saved nothing for an hour has ``silent``, the seconds
    since its last step.

    tick: whether rules are told the present time after the last step.
    others: runs that rules compare with.
    """
    done = count(1)
    with progress("evaluating") as advance:
        advance(0, steps)

        def on_step(step: int) -> None:
            advance(next(done), steps)

        if watch is None and not tick and not others and has_halves(storage, steps):
            checkpoint, report = check_in_halves(storage, on_step)
        else:
            checkpoint, report = check(storage, watch, tick=tick, on_step=on_step, others=others)
    idle = _idle(checkpoint, time.time())
    found = document(checkpoint)
    if idle is not None and idle >= _SILENT:
        found["silent"] = round(idle)
    return found, [*_without_end(idle), *report.log]


def _idle(checkpoint: Checkpoint, now: float) -> float | None:
    """Seconds since the last step was saved, of a run without an end marker: by these people see
    whether it still trains.
    """
    if checkpoint.ended == "marker" or checkpoint.last_step is None:
        return None
    return max(0.0, now - checkpoint.last_time)


def _without_end(idle: float | None) -> Iterator[str]:
    if idle is not None:
        yield f"no end marker, last step {age(idle)} ago"
