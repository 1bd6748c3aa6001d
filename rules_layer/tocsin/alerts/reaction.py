"""React to a message: update the group, decide, act and record, so that nothing is lost.

The group is committed before anything is done, and after each thing that was done. A crash leaves
tasks in the group, which is due when the crashed invocation's claim has run out; a stop's is short,
and a message for its end is under way before the stop is decided. At most the action whose record
was cut off is done twice.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tocsin.actions import ActionOutcome, Result
from tocsin.alerts.group import AlertGroup, Claim, Task
from tocsin.alerts.messages import Deliver, Flush, Incoming, Relaunched
from tocsin.alerts.pipeline import decide, decide_again
from tocsin.alerts.ports import AlertPorts, CommitConflict, StoredGroup
from tocsin.alerts.spending import SUMMARY, Spending
from tocsin.alerts.stage import Send
from tocsin.alerts.tasks import (
    action_events,
    carry_out,
    claim_tasks,
    drop_stale_rules,
    is_given_up,
    record_outcome,
    release_tasks,
    remove_task,
    retry_later,
    with_relaunch,
)
from tocsin.alerts.update import with_alert, with_checkpoint, with_summary
from tocsin.events import RunNews, RunSummary, StatusChange
from tocsin.watch import Silence

LONGEST_DELAY = 900.0  # of an SQS message; what is due later is patrol's
_TRIES = 10
_LONGEST_TASK = 15.0  # seconds; where fewer are left, another invocation goes on
SHARE = 5.0  # seconds of an invocation for one run: one with much to deliver then makes room
_WAITS = (2.0, 4.0, 8.0, 16.0, 30.0, 60.0)  # seconds for a turn, after the first, second … try


class TryAgain(Exception):
    """The message must come back: the group could not be committed."""


@dataclass
class ActReport:
    """For telemetry and the log: ``sent`` and ``held`` count reasons."""

    sent: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    guarded: int = 0
    log: list[str] = field(default_factory=list)


def react(message: Incoming, ports: AlertPorts, *, ends: float) -> ActReport:
    """Handles one message; ``ends`` (seconds since the epoch) is when this invocation is cut off.

    Decisions and stops are done at once. All else, which may take long, is handed on to an
    invocation for a ``Deliver``, and that one hands on what is left after SHARE seconds. Not all
    invocations may deliver at a time. So no run can hold up the stop of another, however much it
    has to deliver.

    Raises TryAgain if the message must come back.
    """
    claim = Claim(secrets.token_hex(8), ends + 1, delivers=isinstance(message, Deliver))
    if not isinstance(message, Deliver):
        return _work(message, ports, claim, ends)
    if not ports.turns.take(claim.owner, claim.until):
        if message.waits < len(_WAITS):  # after that, patrol finds the group
            ports.timer.deliver(message.run, message.waits + 1, _WAITS[message.waits])
        return ActReport()
    try:
        return _work(message, ports, claim, ends)
    finally:
        ports.turns.give_back(claim.owner)


def _work(message: Incoming, ports: AlertPorts, claim: Claim, ends: float) -> ActReport:
    work = GroupUnitOfWork(ports, ports.groups.load(message.run), claim)
    before, yields = work.group, min(ports.now() + SHARE, ends - _LONGEST_TASK)
    work.receive(message)
    while (task := work.next_task()) is not None and ports.now() <= yields:
        work.do(task)
    work.hand_on(before)
    work.set_timer(before.timer_at)
    return work.report


def _events(message: Incoming) -> Sequence[StatusChange | RunSummary]:
    if isinstance(message, Flush | Deliver | Relaunched):
        return ()
    if isinstance(message, RunNews):
        own: list[StatusChange | RunSummary] = [*message.changes, *message.summaries]
        return [each for each in own if each.run == message.run]
    return (message,)


@dataclass
class GroupUnitOfWork:
    """One invocation's work on a run's group, which it commits step by step."""

    ports: AlertPorts
    stored: StoredGroup
    claim: Claim
    report: ActReport = field(default_factory=ActReport)
    backed_stops: set[str] = field(default_factory=set)
    silences: Sequence[Silence] | None = None

    @property
    def group(self) -> AlertGroup:
        return self.stored.group

    def commit(self, change: Callable[[AlertGroup], AlertGroup]) -> None:
        """Commit a change of the group on top of concurrent commits."""
        for _ in range(_TRIES):
            before = self.group
            group = change(before)
            if group == before:
                return
            self._back_stop(group)
            try:
                version = self.ports.groups.save(group, self.stored.version)
            except CommitConflict:
                self.stored = self.ports.groups.load(group.run)
                continue
            self.stored = StoredGroup(group, version)
            self._report(before, group)
            return
        raise TryAgain(f"{self.group.run}: other invocations committed {_TRIES} times; try later")

    def receive(self, message: Incoming) -> None:
        """Commit the alerts of the message and the checkpoint, and the resulting tasks."""
        now = self.ports.now()

        def change(group: AlertGroup) -> AlertGroup:
            if self.claim.delivers:  # nothing is new
                return claim_tasks(group, now, self.claim)
            if isinstance(message, Relaunched):
                return with_relaunch(group, message, now, self.claim)
            # Read after the group, and again with it: it knows all that is known there.
            known = self.ports.checkpoints.known(message.run)
            events = [each for each in _events(message) if known is not None and known.has(each)]
            for each in _events(message):
                if each not in events:
                    what = f"{each.dedup_id} of {message.run}"
                    self.report.log.append(f"ignored {what}: the checkpoint does not know it")
            if not events and not isinstance(message, Flush):
                return group
            for each in events:
                if isinstance(each, StatusChange):
                    group = with_alert(group, each, now)
            if known is not None:
                group = with_checkpoint(group, known, now)
            for each in events:
                if isinstance(each, RunSummary):
                    group = with_summary(group, each)
            group = claim_tasks(group, now, self.claim)
            return decide(group, self._active_silences(now), now, self.claim)

        self.commit(change)

    def hand_on(self, before: AlertGroup) -> None:
        """Hand on what is left, and send a message for all that was not handed on ``before``, or
        that waited for a stop.
        """
        now = self.ports.now()
        self.commit(lambda group: release_tasks(group, self.claim, now))
        known = {(task.id, task.claimed_until) for task in before.tasks if task.is_handed_on}
        waiting = {(task.id, task.claimed_until) for task in self.group.tasks if task.is_handed_on}
        stops = {task.id for task in before.tasks if task.action == "stop"}
        stopped = stops - {task.id for task in self.group.tasks}
        if waiting - known or (waiting and stopped):
            self.ports.timer.deliver(self.group.run)

    def set_timer(self, before: float | None) -> None:
        """Send a message for the time to look again, unless one is on its way: ``before`` is the
        time that was known before this invocation.
        """
        due_at, now = self.group.timer_at, self.ports.now()
        if due_at is None or (due_at == before and now < due_at):
            return
        if (delay := max(due_at - now, 1.0)) <= LONGEST_DELAY:
            self.ports.timer.flush(self.group.run, delay)

    def next_task(self) -> Task | None:
        mine = (task for task in self.group.tasks if task.claim == self.claim.owner)
        return next(mine, None)

    def do(self, task: Task) -> None:
        """Take the action, record its outcome, publish it, remove the task, and decide the same
        action again, for what had to wait.
        """
        if task.outcome is None:
            task = drop_stale_rules(task, self.group)
            kind = SUMMARY if task.reason == Send.SUMMARY else ""
            spending = Spending(
                self.group.spent, self.ports.caps, self.ports.now(), task.reserved, kind
            )
            effects = spending.within_caps(self.group.run, self.ports.effects)
            result = carry_out(task, self.group, self.ports.lookups, effects)
            if result.outcome is ActionOutcome.FAILED and not is_given_up(task):
                self._fail(task, result, spending)
                return
            if result.outcome is not ActionOutcome.DONE:
                spending.give_back(self.group.run, self.ports.effects)
            self.report.guarded += result.guarded
            spending.now = self.ports.now()
            self.commit(lambda group: record_outcome(group, task, result, spending, self.claim))
        else:
            result = Result(task.outcome, task.detail)
        try:
            self._publish(task, result)
        except Exception as error:  # noqa: BLE001  # it is done; only its record is missing
            if not is_given_up(task):
                detail = f"{result.detail}; not yet on the bus: {error}"
                self._fail(task, Result(result.outcome, detail))
                return
            self.report.log.append(f"{task.id} of {self.group.run} is not on the bus: {error}")
        now = self.ports.now()
        silences = self._active_silences(now)
        self.commit(
            lambda group: decide_again(
                task.action, remove_task(group, task, result), silences, now, self.claim
            )
        )

    def _active_silences(self, now: float) -> Sequence[Silence]:
        if self.silences is None:
            self.silences = self.ports.silences.active(now)
        return self.silences

    def _publish(self, task: Task, result: Result) -> None:
        self.ports.put_events([*action_events(task, self.group, result)])

    def _fail(self, task: Task, result: Result, spending: Spending | None = None) -> None:
        """Leave the task for later; publish the first failure."""
        self.report.failed += 1
        self.report.log.append(f"{task.id} of {self.group.run}: {result.detail}")
        if result.outcome is ActionOutcome.FAILED and not task.detail:
            try:
                self._publish(task, result)
            except Exception as error:  # noqa: BLE001  # the retry matters more than its record
                self.report.log.append(f"the failure is not on the bus: {error}")
        now = self.ports.now()
        self.commit(lambda group: retry_later(group, task, result, now, spending))

    def _back_stop(self, group: AlertGroup) -> None:
        """Has the group looked at when this invocation's claim of a stop is over, in case that the
        invocation is over before. Patrol comes each minute only.
        """
        for task in group.unfinished:
            if task.action != "stop" or task.claim != self.claim.owner:
                continue
            if task.id in self.backed_stops:
                continue
            self.backed_stops.add(task.id)
            try:
                self.ports.timer.flush(group.run, task.claimed_until - self.ports.now() + 1)
            except Exception as error:  # noqa: BLE001  # then it is patrol's
                self.report.log.append(f"{task.id} waits for the patrol: {error}")

    def _report(self, before: AlertGroup, after: AlertGroup) -> None:
        """Count the decisions, and list them for the log."""
        old = set(map(id, before.log))
        for entry in after.log:
            if id(entry) in old or entry.outcome is not None:
                continue
            counted = self.report.sent if entry.decision == "send" else self.report.held
            counted[entry.reason] += 1
            what = f"{entry.decision} {entry.action} for {entry.rule or 'the run'}: {entry.reason}"
            self.report.log.append(f"{what} {entry.detail}".rstrip())
