"""State machines: one whose state is a distributed Map, and one that starts jobs again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0  # seconds between two questions
_ENDED = ("succeeded", "failed", "timedOut", "aborted")


def start_once(client: Any, machine: str, name: str, given: object) -> None:
    """Start an execution, unless there was one of this name in the last 90 days."""
    text = msgspec.json.encode(given).decode()
    with suppress(client.exceptions.ExecutionAlreadyExists):
        client.start_execution(stateMachineArn=machine, name=name, input=text)


@dataclass(frozen=True)
class MapMachine:
    """Starts executions, and waits for them."""

    client: Any
    arn: str

    def start(self, name: str, given: Mapping[str, str]) -> None:
        self.client.start_execution(
            stateMachineArn=self.arn, name=name, input=json.dumps(dict(given))
        )

    def wait(self, name: str, on_ended: Callable[[int], None]) -> str:
        """Wait until an execution has ended; its status. ``on_ended`` gets the number of its items
        that have ended.
        """
        execution = f"{self.arn.replace(':stateMachine:', ':execution:')}:{name}"
        pause = _FIRST_PAUSE
        while True:
            status = str(self.client.describe_execution(executionArn=execution)["status"])
            on_ended(self._ended(execution))
            if status != "RUNNING":
                return status
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    def _ended(self, execution: str) -> int:
        runs = self.client.list_map_runs(executionArn=execution)["mapRuns"]
        if not runs:
            return 0
        counts = self.client.describe_map_run(mapRunArn=runs[0]["mapRunArn"])["itemCounts"]
        return sum(int(counts[each]) for each in _ENDED)
