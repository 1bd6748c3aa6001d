"""The page of a run that a deployment evaluates: from its checkpoint and trace, as they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tocsin.evaluation import Checkpoint, TraceStore
from tocsin.report.history import History
from tocsin.report.machine_parts import Machine
from tocsin.report.page import Page
from tocsin.report.parts import Alert
from tocsin.report.report import page_of
from tocsin.report.step_trace import newest_trace
from tocsin.tensors import Storage

MOST_BYTES = 512 << 20  # of index files: over 1,000 saves of 1,000 tensors


def stored_page(
    checkpoint: Checkpoint,
    traces: TraceStore,
    storage: Storage,
    made: datetime,
    alerts: Sequence[Alert] = (),
    machine: Machine | None = None,
) -> Page:
    """Return the page of the run as far as the checkpoint has evaluated it, without evaluating
    again.

    Lanes and limits are those of the trace, which has up to 800 points a rule. ``alerts`` are the
    actions that were taken, ``machine`` the machines of the training.
    """
    trace = traces.load(checkpoint.run)
    trace.extend(checkpoint.points)
    history = History(storage, most_bytes=MOST_BYTES)
    history.refresh()
    return page_of(
        checkpoint,
        trace,
        history,
        made=made,
        alerts=alerts,
        machine=machine,
        step_trace=newest_trace(storage),
    )
