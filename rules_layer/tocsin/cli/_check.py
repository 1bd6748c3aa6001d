"""``tocsin check``: rules over a whole run, with the engine that Lambda has."""

from __future__ import annotations

from itertools import count

from tocsin.cli._output import Document, progress
from tocsin.evaluation import check, document
from tocsin.tensors import Storage
from tocsin.watch import Watch


def checked(storage: Storage, watch: Watch | None, steps: int) -> tuple[Document, list[str]]:
    """The JSON of ``tocsin check``, and what the evaluation has to say of files."""
    done = count(1)
    with progress("evaluating") as advance:
        advance(0, steps)
        checkpoint, report = check(storage, watch, on_step=lambda step: advance(next(done), steps))
    return document(checkpoint), report.log
