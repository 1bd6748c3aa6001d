"""A whole run at once, with the same engine as in Lambda."""

from __future__ import annotations

import time
from collections.abc import Callable

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._desk import Hint, Report
from tocsin.evaluation._memory import memory_world
from tocsin.evaluation._reconcile import reconcile
from tocsin.tensors import Storage
from tocsin.watch import Watch

_FOREVER = float("inf")


def check(
    storage: Storage,
    watch: Watch | None = None,
    *,
    now: Callable[[], float] = time.time,
    on_step: Callable[[int], None] = lambda step: None,
) -> tuple[Checkpoint, Report]:
    """Evaluate a run from its first step on, keeping nothing.

    ``watch`` goes before the run's own ``watch.json``; without either, the rules of
    profile recommended watch. Steps that may still be incomplete are left out, as in Lambda.
    """
    world = memory_world(storage, now)
    report = Report()
    reconcile(Hint(storage.url), world, report, deadline=_FOREVER, watch=watch, on_step=on_step)
    return world.checkpoints.load(storage.url).checkpoint, report
