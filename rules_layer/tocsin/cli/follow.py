"""``tocsin check --follow``: evaluates a run while its training writes it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from tocsin.cli.output import Document, note
from tocsin.evaluation import EvaluationReport, Hint, document, memory_ports, reconcile
from tocsin.events import RunEvent, StatusChange
from tocsin.tensors import INDEX, STOP, Storage
from tocsin.watch import Watch

PAUSE = 1.0  # seconds between two looks
TICK = 30.0  # seconds between two looks that bring the time to rules such as StalledTrainingRule


@dataclass(frozen=True)
class Stopper:
    """Notes each rule that fires, and asks the training to stop where a rule has the action stop.

    No other action is taken: there is nobody to send with.
    """

    storage: Storage
    now: Callable[[], float]

    def publish(self, events: Sequence[RunEvent]) -> None:
        for event in events:
            if isinstance(event, StatusChange) and event.firing:
                note(f"step {event.step}: {event.rule_configuration_name}: {event.status_details}")
                if "stop" in event.actions:
                    self._stop(event)

    def _stop(self, event: StatusChange) -> None:
        now = datetime.fromtimestamp(self.now(), UTC)
        if event.dry_run:
            note(f"dry run: {event.rule_configuration_name} would stop the training")
        elif any(silence.until > now for silence in event.silences):
            note(f"{event.rule_configuration_name} is silenced: the training is not stopped")
        else:
            request = {
                "requested_at": now.isoformat(),
                "rule": event.rule_configuration_name,
                "reason": event.reason,
                "step": event.step,
                "run_id": event.run_id,
            }
            self.storage.write(STOP, msgspec.json.encode(request))
            note(f"wrote {self.storage.url}/{STOP}, which asks the training's hook to stop")


@dataclass
class Following:
    """A run that is followed. ``document`` is the JSON of ``tocsin check``, up to the last look."""

    storage: Storage
    watch: Watch | None
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.report = EvaluationReport()
        ports = memory_ports(self.storage, self.now)
        self._ports = replace(ports, publisher=Stopper(self.storage, self.now))
        self._ticked = -math.inf
        self._seen: dict[str, float] = {}  # index file -> when it was written

    @property
    def document(self) -> Document:
        return document(self._ports.checkpoints.load(self.storage.url).checkpoint)

    def until_end(self, wait: Callable[[float], None] = time.sleep) -> None:
        """Looks again and again until the run has ended. A run may begin later."""
        if next(iter(self.storage.list(INDEX)), None) is None:
            note(f"waiting for the first step in {self.storage.url}")
        while not self.look():
            wait(PAUSE)

    def look(self) -> bool:
        """Evaluates what is new. Returns whether the run has ended."""
        now = self.now()
        tick = now if now - self._ticked >= TICK else None
        self._ticked = self._ticked if tick is None else now
        hint = Hint(self.storage.url, self._written(), tick)
        reconcile(hint, self._ports, self.report, deadline=math.inf, watch=self.watch)
        return self._ports.checkpoints.load(self.storage.url).checkpoint.ended is not None

    def _written(self) -> tuple[str, ...]:
        """The index files that were written since the last look, as notifications name them.

        By those of steps before the frontier a training that begins again or resumes is recognised.
        """
        before = self._seen
        self._seen = {found.key: found.modified for found in self.storage.list(INDEX)}
        return tuple(key for key, at in self._seen.items() if before.get(key) != at)
