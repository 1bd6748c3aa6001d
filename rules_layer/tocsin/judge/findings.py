"""Logs findings while a training writes its run, and requests a stop for a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from tocsin.evaluation import Publisher
from tocsin.events import RunEvent, StatusChange
from tocsin.model import RuleStatus
from tocsin.tensors import STOP, Storage, step_text


@dataclass(frozen=True)
class Findings:
    """Says each rule that fires, fails or is resolved, and stops the training where a rule has the
    action stop.

    say: gets a line. stopping: gets the alert that has asked the training to stop.
    """

    storage: Storage
    now: Callable[[], float]
    say: Callable[[str], object]
    stopping: Callable[[StatusChange], object] = lambda alert: None

    def publish(self, events: Sequence[RunEvent]) -> None:
        for event in events:
            if not isinstance(event, StatusChange):
                continue
            if (line := change_line(event)) is not None:
                self.say(line)
            if event.firing and "stop" in event.actions:
                self._stop(event)

    def _stop(self, event: StatusChange) -> None:
        now = datetime.fromtimestamp(self.now(), UTC)
        rule = event.rule_configuration_name
        if event.dry_run:
            self.say(f"dry run: {rule} would stop the training")
        elif any(silence.until > now for silence in event.silences):
            self.say(f"{rule} is silenced: the training is not stopped")
        else:
            request = {
                "requested_at": now.isoformat(),
                "rule": rule,
                "reason": event.reason,
                "step": event.step,
                "run_id": event.run_id,
            }
            self.storage.write(STOP, msgspec.json.encode(request))
            self.say(f"wrote {self.storage.url}/{STOP}, which asks the training's hook to stop")
            self.stopping(event)


@dataclass(frozen=True)
class Several:
    """Publishes to each in turn."""

    publishers: Sequence[Publisher]

    def publish(self, events: Sequence[RunEvent]) -> None:
        for publisher in self.publishers:
            publisher.publish(events)


def change_line(event: StatusChange) -> str | None:
    """Return a line about a rule that fires, fails or is resolved; None for any other change."""
    at = "" if event.step is None else f"{step_text(event.run, event.step)}: "
    if event.firing:
        return f"{at}{event.rule_configuration_name}: {event.status_details}"
    if event.rule_evaluation_status is RuleStatus.ERROR:
        return f"{event.rule_configuration_name} is in Error: {event.status_details}"
    if event.previous_status is RuleStatus.ISSUES_FOUND and not event.withdrawn:
        return f"{at}{event.rule_configuration_name}: resolved"
    return None
