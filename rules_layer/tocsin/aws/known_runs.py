"""The runs in ``act``, from the checkpoints that ``evaluate`` commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tocsin.alerts import Known
from tocsin.aws.s3 import S3Checkpoints
from tocsin.evaluation import Checkpoint, last_changes
from tocsin.events import BadEvent, StatusChange, checked, timestamp
from tocsin.words import clean

_log = logging.getLogger("tocsin")


@dataclass(frozen=True)
class KnownRuns:
    """Reads the checkpoints that ``evaluate`` commits, as the events that it would publish."""

    checkpoints: S3Checkpoints
    now: Callable[[], float]

    def known(self, run: str) -> Known | None:
        stored = self.checkpoints.load(run)
        if stored.unreadable:
            why = clean(stored.unreadable, 500)
            _log.warning("checkpoint of %s cannot be read: %s", clean(run), why)
            return None
        if stored.version is None:
            return None
        checkpoint = stored.checkpoint
        return Known(
            tuple(self._alerts(checkpoint)), frozenset(checkpoint.rules), checkpoint.sequence
        )

    def last_changes(self, run: str) -> Sequence[StatusChange] | None:
        """Return the last status change of each rule that ever fired; None for a run without any
        step."""
        found = self.known(run)
        return found.alerts if found is not None and found.rules else None

    def _alerts(self, checkpoint: Checkpoint) -> Iterator[StatusChange]:
        for change in last_changes(checkpoint):
            try:
                yield checked(replace(change, evaluated_at=timestamp(self.now())))
            except BadEvent as error:
                what = f"{change.rule_configuration_name} of {checkpoint.run}: {error}"
                _log.warning("no alert: %s", clean(what, 500))
