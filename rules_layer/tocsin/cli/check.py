"""``tocsin check``: evaluates rules over a whole run, and prints what they found."""

from __future__ import annotations

from itertools import count

from tocsin.cli.output import Document, progress
from tocsin.evaluation import check, document
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
    return document(checkpoint), report.log
