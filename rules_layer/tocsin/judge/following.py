"""Evaluates a run while its training writes it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tocsin.evaluation import (
    Checkpoint,
    EvaluationReport,
    Hint,
    MemoryPublisher,
    OnVerdict,
    Publisher,
    document,
    memory_ports,
    reconcile,
)
from tocsin.tensors import INDEX, Storage
from tocsin.watch import Watch

PAUSE = 1.0  # seconds between two looks
TICK = 30.0  # seconds between two looks that bring the time to rules such as StalledTrainingRule


@dataclass
class Following:
    """A run that is followed. ``document`` is the JSON of ``tocsin check``, up to the last look.

    publisher: what gets the status changes.
    on_verdict: what gets the verdict of each rule at each step.
    """

    storage: Storage
    watch: Watch | None
    now: Callable[[], float] = time.time
    publisher: Publisher = field(default_factory=MemoryPublisher)
    on_verdict: OnVerdict = lambda rule, step, verdict, status: None

    def __post_init__(self) -> None:
        self.report = EvaluationReport()
        self._ports = replace(memory_ports(self.storage, self.now), publisher=self.publisher)
        self._ticked = -math.inf
        self._seen: dict[str, float] = {}  # index file -> when it was written

    @property
    def checkpoint(self) -> Checkpoint:
        return self._ports.checkpoints.load(self.storage.url).checkpoint

    @property
    def version(self) -> str | None:
        """The version of the checkpoint: another one when a look has found something new."""
        return self._ports.checkpoints.load(self.storage.url).version

    @property
    def document(self) -> dict[str, Any]:
        return document(self.checkpoint)

    @property
    def has_begun(self) -> bool:
        """Return whether a step was saved."""
        return next(iter(self.storage.list(INDEX)), None) is not None

    def until_end(self, wait: Callable[[float], object] = time.sleep) -> None:
        """Look again and again until the run has ended. A run may begin later."""
        while not self.look():
            wait(PAUSE)

    def look(self, on_step: Callable[[int], None] = lambda step: None) -> bool:
        """Evaluate new steps. Return whether the run has ended."""
        now = self.now()
        tick = now if now - self._ticked >= TICK else None
        self._ticked = self._ticked if tick is None else now
        hint = Hint(self.storage.url, self._written(), tick)
        reconcile(
            hint,
            self._ports,
            self.report,
            deadline=math.inf,
            watch=self.watch,
            on_step=on_step,
            on_verdict=self.on_verdict,
        )
        return self.checkpoint.ended is not None

    def _written(self) -> tuple[str, ...]:
        """The index files that were written since the last look, as notifications name them.

        By those of steps before the frontier a training that begins again or resumes is recognised.
        """
        before = self._seen
        self._seen = {found.key: found.modified for found in self.storage.list(INDEX)}
        return tuple(key for key, at in self._seen.items() if before.get(key) != at)
