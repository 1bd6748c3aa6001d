"""Random sequences with runs of several owners: limits hold, and nobody uses up what is others'."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.client import BaseClient
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from tocsin.events import ACTION_TAKEN
from tocsin.owners import SHARED, owner_of

from tests.faults.room import CAPTURES, Crash, Deployed, alert, aws_in_process

SEQUENCES = int(os.environ.get("TOCSIN_FAULT_SEQUENCES", "500"))
PREFIX = "runs/"
OWNERS = st.sampled_from(["evil", "prod", "vision"])
ACTIONS = st.sampled_from(["sms", "email", "stop"])
LIMITS = {"sms": (2, 4, 8), "email": (1, 10, 100)}  # of a run, of its owner, of all
STOPS, SECONDS = 2, 600.0  # of one owner, within this time
OPTIONS = {
    "TOCSIN_CAPTURE_PREFIX": PREFIX,
    "TOCSIN_PHONES": "+15551230000",
    "TOCSIN_SMS_MONTHLY_CAP": "8",
    "TOCSIN_EMAIL_RUN_CAP": "1",
    "TOCSIN_STOP_GUARD": "2/10m",
}


class Owners(RuleBasedStateMachine):
    """Rules of runs of three owners fire and resolve, with actions that are limited.

    At each moment: no limit of a run, of its owner or of the deployment is exceeded, and nothing is
    refused while there is room in all three. A stop is held back by stops of the same owner only.
    Each invocation that is cut off may count once too often or act once more, for its own run and
    owner and for the deployment, but not for another owner.
    """

    def __init__(self) -> None:
        super().__init__()
        self.open = ExitStack()
        self.open.enter_context(aws_in_process())
        self.act = Deployed(**OPTIONS)
        self.numbers = Counter[str]()
        self.done = Counter[tuple[str, str]]()
        self.stops: list[tuple[float, str, str]] = []
        self.cut_off = Counter[str]()
        self.seen = 0

    @rule(owner=OWNERS, action=ACTIONS, runs=st.integers(1, 11))
    def fire(self, owner: str, action: str, runs: int) -> None:
        """Have a rule fire in some runs of an owner, or resolve where it fires."""
        for number in range(runs):
            self._fire(f"{CAPTURES}{PREFIX}{owner}/{action}{number}", action)

    @rule(
        owner=OWNERS,
        action=ACTIONS,
        number=st.integers(0, 10),
        calls=st.integers(0, 25),
        after=st.booleans(),
    )
    def die(self, owner: str, action: str, number: int, calls: int, after: bool) -> None:
        """The same in one run, whose invocation is cut off at a call of AWS."""
        run = f"{CAPTURES}{PREFIX}{owner}/{action}{number}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BaseClient, "_make_api_call", _cut_off(calls, after))
            try:
                self._fire(run, action)
            except Crash:
                self.cut_off.update([run, owner_of(run, PREFIX), ""])
                self._judge()

    def _fire(self, run: str, action: str) -> None:
        self.numbers[run] += 1
        firing = self.numbers[run] % 2 == 1
        fields = {"Run": run, "TrainingJobName": run.rpartition("/")[2], "Severity": "critical"}
        fields |= {"Actions": [action], "Sequence": self.numbers[run]}
        self.act.receive(alert("LossDiverging", firing=firing, **fields))
        self._judge()

    @rule(seconds=st.sampled_from([61.0, 301.0, 601.0, 90_000.0]))
    def wait(self, seconds: float) -> None:
        self.act.pass_time(seconds)
        self._judge()

    def teardown(self) -> None:
        self.open.close()

    def _judge(self) -> None:
        events = self.act.bus.details(ACTION_TAKEN)
        for event in events[self.seen :]:
            if event["Action"] == "stop":
                self._judge_stop(event["Run"], event["Outcome"])
            else:
                self._judge_message(event["Run"], event["Action"], event["Outcome"])
        self.seen = len(events)

    def _judge_message(self, run: str, kind: str, outcome: str) -> None:
        period = datetime.fromtimestamp(self.act.clock.now, UTC).strftime(SHARED[kind].period)
        levels = [run, owner_of(run, PREFIX), ""]
        whose = [(f"{kind} {period}", each) for each in levels]
        self.done.update(whose if outcome == "done" else ())
        over = [
            (self.done[each] - most, self.cut_off[level])
            for each, most, level in zip(whose, LIMITS[kind], levels, strict=True)
        ]
        if outcome == "done":
            assert all(count <= unclear for count, unclear in over)
        else:
            assert outcome == "refused"
            assert any(count >= -unclear for count, unclear in over)

    def _judge_stop(self, run: str, outcome: str) -> None:
        now, owner = self.act.clock.now, owner_of(run, PREFIX)
        others = {
            other
            for at, whose, other in self.stops
            if whose == owner and at > now - SECONDS and other != run
        }
        if outcome == "done":
            self.stops.append((now, owner, run))
            assert len(others) < STOPS
        else:
            assert len(others) + self.cut_off[owner] >= STOPS


def _cut_off(calls: int, after: bool) -> Callable[..., Any]:
    """AWS, where the ``calls``-th call from now on ends the invocation, before or after it."""
    original, left = BaseClient._make_api_call, calls

    def call(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
        nonlocal left
        left -= 1
        if left < 0 and not after:
            raise Crash
        answer = original(client, operation, parameters)
        if left < 0:
            raise Crash
        return answer

    return call


def test_any_sequence_of_owners() -> None:
    run_state_machine_as_test(
        Owners,
        settings=settings(
            max_examples=max(1, SEQUENCES // 125),  # each takes as long as 125 of one run
            stateful_step_count=10,
            deadline=None,
            derandomize=SEQUENCES <= 500,  # `make faults` tries others each time
            suppress_health_check=list(HealthCheck),
        ),
    )
