"""React to a message: take up what it says, decide, act, and remember, so that nothing is lost.

The group is committed before anything is done, and after each thing that was done. A crash leaves
tasks in the group; the message that was not worked off comes back and does them when the crashed
invocation's claim has run out. At most the action whose record was cut off is done twice.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tocsin.actions import Outcome, Ports, Result
from tocsin.alerts._group import Entry, Group, Task
from tocsin.alerts._messages import Message, Retry
from tocsin.alerts._note import ended, noted, noted_all
from tocsin.alerts._pipeline import Claim, decide
from tocsin.alerts._ports import Checkpoints, Conflict, GroupStore, Silences, Stored, Timer
from tocsin.alerts._work import claimed, events, find, finished, handed, still, told, work
from tocsin.events import RunSummary, StatusChange

LONGEST_DELAY = 900.0  # of an SQS message; what is due later is patrol's
_TRIES = 10
_FIRST_RETRY = 15.0
_LONGEST_TASK = 15.0  # seconds; where fewer are left, another invocation goes on


class TryAgain(Exception):
    """The message must come back: something could not be done, or not be committed."""


@dataclass(frozen=True)
class World:
    """What reacting needs, given from outside; ``now`` is in seconds since the epoch."""

    groups: GroupStore
    silences: Silences
    checkpoints: Checkpoints
    timer: Timer
    ports: Ports
    now: Callable[[], float]


@dataclass
class Report:
    """What was done, for telemetry and the log: ``sent`` and ``held`` count reasons."""

    sent: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    guarded: int = 0
    log: list[str] = field(default_factory=list)


def react(message: Message, world: World, *, ends: float) -> Report:
    """Work off one message; ``ends`` (seconds since the epoch) is when this invocation is cut off.

    Raises TryAgain if the message must come back.
    """
    desk = _Desk(world, world.groups.load(message.run), Claim(secrets.token_hex(8), ends + 1))
    before = desk.group
    if isinstance(message, Retry):
        desk.commit(lambda group: claimed(group, world.now(), desk.claim, message.task))
        _refuse_claimed(desk, message.task)
    else:
        _decided(desk, message)
        _set_timer(desk, before.wake_at)
    while (task := desk.next_task()) is not None:
        if world.now() > ends - _LONGEST_TASK and not isinstance(message, Retry):
            world.timer.flush(message.run, ends + 2 - world.now())  # when the claim has run out
            break
        _do(desk, task, trying_again=isinstance(message, Retry))
    return desk.report


@dataclass
class _Desk:
    """The run's group as it is committed, step by step, by this invocation."""

    world: World
    stored: Stored
    claim: Claim
    report: Report = field(default_factory=Report)

    @property
    def group(self) -> Group:
        return self.stored.group

    def commit(self, change: Callable[[Group], Group]) -> None:
        """Commit a change of the group, on whatever others have committed meanwhile."""
        for _ in range(_TRIES):
            group = change(self.group)
            if group == self.group:
                return
            try:
                self.stored = Stored(group, self.world.groups.save(group, self.stored.version))
                return
            except Conflict:
                self.stored = self.world.groups.load(group.run)
        raise TryAgain(f"{self.group.run}: others are at it; it is looked at again later")

    def next_task(self) -> Task | None:
        mine = (task for task in self.group.tasks if task.claim == self.claim.owner)
        return next(mine, None)


def _decided(desk: _Desk, message: Message) -> None:
    world = desk.world
    now = world.now()
    silences = world.silences.active(now)
    entries: list[Entry] = []

    def change(group: Group) -> Group:
        # Read after the group, and again with it: it knows all that is known there.
        known, before = world.checkpoints.known(message.run), set(map(id, group.log))
        if isinstance(message, StatusChange):
            group = noted(group, message, now)
        if known is not None:
            group = noted_all(group, known, now)
        if isinstance(message, RunSummary):
            group = ended(group, message)
        group = decide(claimed(group, now, desk.claim), silences, now, desk.claim)
        entries[:] = (entry for entry in group.log if id(entry) not in before)
        return group

    desk.commit(change)
    for entry in entries:
        counted = desk.report.sent if entry.decision == "send" else desk.report.held
        counted[entry.reason] += 1
        what = f"{entry.decision} {entry.action} for {entry.rule or 'the run'}: {entry.reason}"
        desk.report.log.append(f"{what} {entry.detail}".rstrip())


def _set_timer(desk: _Desk, before: float | None) -> None:
    """A message for the next time that something is due, unless one is on its way."""
    wake_at, now = desk.group.wake_at, desk.world.now()
    if wake_at is None or (wake_at == before and now < wake_at):
        return
    if (delay := max(wake_at - now, 1.0)) <= LONGEST_DELAY:
        desk.world.timer.flush(desk.group.run, delay)


def _refuse_claimed(desk: _Desk, task_id: str) -> None:
    task = find(desk.group, task_id)
    if task is not None and task.claim != desk.claim.owner:
        raise TryAgain(f"{task_id} of {desk.group.run} is being worked on")


def _do(desk: _Desk, task: Task, *, trying_again: bool) -> None:
    """One task: taken, remembered, told on the bus, and struck out."""
    ports, now = desk.world.ports, desk.world.now()
    if task.outcome is None:
        task = still(task, desk.group)
        result = work(task, desk.group, ports)
        if result.outcome is Outcome.FAILED:
            _failed(desk, task, result, trying_again=trying_again)
            return
        desk.report.guarded += result.guarded
        desk.commit(lambda group: finished(group, task, result, now, desk.claim))
    else:
        result = Result(task.outcome, task.detail)
    try:
        _tell(ports, task, desk.group, result)
    except Exception as error:  # noqa: BLE001  # it is done; only its record is missing
        unrecorded = Result(result.outcome, f"{result.detail}; not yet on the bus: {error}")
        _failed(desk, task, unrecorded, trying_again=trying_again)
        return
    desk.commit(lambda group: told(group, task, result))


def _tell(ports: Ports, task: Task, group: Group, result: Result) -> None:
    for event in events(task, group, result):
        ports.put_event(event)


def _failed(desk: _Desk, task: Task, result: Result, *, trying_again: bool) -> None:
    """Leaves the task to a message of its own, which fails with it; the first failure is told."""
    desk.report.failed += 1
    desk.report.log.append(f"{task.id} of {desk.group.run}: {result.detail}")
    if trying_again:
        desk.commit(lambda group: handed(group, task, result))
        raise TryAgain(f"{task.action}: {result.detail}")
    if result.outcome is Outcome.FAILED:
        try:
            _tell(desk.world.ports, task, desk.group, result)
        except Exception as error:  # noqa: BLE001  # the retry matters more than its record
            desk.report.log.append(f"the failure is not on the bus: {error}")
    desk.world.timer.retry(desk.group.run, task.id, _FIRST_RETRY)
    desk.commit(lambda group: handed(group, task, result))
