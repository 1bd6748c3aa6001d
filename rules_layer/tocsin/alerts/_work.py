"""Take a task: what it comes to, and how the group remembers that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tocsin.actions import Alert, Outcome, Ports, Request, Result, take
from tocsin.alerts._group import Group, Task
from tocsin.alerts._pipeline import Claim, add_task
from tocsin.alerts._reason import Send
from tocsin.model import Severity
from tocsin.words import clean

MOST_HANDED = 100
"""Tasks of a run that have failed and are kept for being tried again; the oldest go."""
_WORST = list(Severity)[::-1]
_MESSAGES = ("email", "sms", "webhook")


def work(task: Task, group: Group, ports: Ports) -> Result:
    """What comes of the task; what raises is ``failed``: other tasks are still to do."""
    request = _request(task, group)
    if task.reason != Send.SUMMARY and not (request.firing or request.resolved):
        return Result(Outcome.REFUSED, "no such rule watches this run any more")
    if not _current(task, group):
        return Result(Outcome.REFUSED, "over before it could be done; what came then is another")
    try:
        return take(request, ports)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is this action's alone
        return Result(Outcome.FAILED, clean(f"{type(error).__name__}: {error}", 500))


def finished(group: Group, task_id: str, result: Result, now: float, claim: Claim) -> Group:
    """The group in which the task has been taken: its outcome is in the log, and to be told.

    Where the stop guard refused, people are told, if the rule itself would tell nobody.
    """
    task = find(group, task_id)
    if task is None:
        return group
    group = _replaced(group, replace(task, outcome=result.outcome, detail=result.detail))
    group = _outcome(group, task_id, result)
    there = [group.alerts[rule].alert for rule in task.firing if rule in group.alerts]
    if not result.guarded or any(map(_tells, there)):
        return group
    alarm = replace(task, action="email", reason=Send.STOP_GUARD, resolved=(), ongoing=())
    return add_task(group, replace(alarm, claim=claim.owner, claimed_until=claim.until), now)


def handed(group: Group, task_id: str, result: Result) -> Group:
    """The group in which the task has failed, and a message of its own tries it again."""
    task = find(group, task_id)
    if task is None:
        return group
    group = _replaced(group, replace(task, handed=True, claim="", claimed_until=0.0))
    failed = [each.id for each in group.tasks if each.handed]
    gone = failed[:-MOST_HANDED]
    group = replace(group, tasks=tuple(task for task in group.tasks if task.id not in gone))
    return _outcome(group, task_id, result)


def told(group: Group, task_id: str, result: Result) -> Group:
    """The group without the task: all is done and told."""
    group = replace(group, tasks=tuple(task for task in group.tasks if task.id != task_id))
    return _outcome(group, task_id, result)


def claimed(group: Group, now: float, claim: Claim, task_id: str | None = None) -> Group:
    """The group in which tasks that nobody is at any more belong to ``claim``: those that were
    left behind by a crash, or the one alone that a message is for.
    """
    tasks = tuple(
        replace(task, claim=claim.owner, claimed_until=claim.until)
        if task.claimed_until < now and (not task.handed if task_id is None else task.id == task_id)
        else task
        for task in group.tasks
    )
    return group if tasks == group.tasks else replace(group, tasks=tasks)


def find(group: Group, task_id: str) -> Task | None:
    return next((task for task in group.tasks if task.id == task_id), None)


def events(task: Task, group: Group, result: Result) -> Iterator[Mapping[str, Any]]:
    """The details of ``Tocsin Action Taken``: one for each rule that the task was for.

    A job is stopped once: the first rule did that, and for others it was stopped already.
    """
    about = group.summary if task.reason == Send.SUMMARY else None
    for at, (rule, dedup_id) in enumerate(task.dedup_ids.items()):
        note = group.alerts.get(rule)
        run_id = about.run_id if about else note.alert.run_id if note else None
        outcome, detail = result.outcome, result.detail
        if at and task.action == "stop" and outcome is Outcome.DONE:
            outcome = Outcome.ALREADY_STOPPED
        yield {
            "TrainingJobName": group.job,
            "Run": group.run,
            "RunId": run_id,
            "RuleConfigurationName": rule,
            "Action": clean(task.action.partition(":")[0], 80),
            "Target": clean(task.action.partition(":")[2], 320) or None,
            "Outcome": outcome,
            "Reason": task.reason,
            "Detail": clean(detail, 2000),
            "DedupId": dedup_id,
        }


def _current(task: Task, group: Group) -> bool:
    """Whether anything is still as it was when the task was decided; else it would be told twice,
    for what is new is decided by itself.
    """
    now = {rule: note.alert.dedup_id for rule, note in group.alerts.items()}
    if group.summary is not None:
        now[""] = group.summary.dedup_id
    return any(now.get(rule) == id_ for rule, id_ in task.dedup_ids.items())


def _request(task: Task, group: Group) -> Request:
    there = [group.alerts[rule].alert for rule in task.rules if rule in group.alerts]
    there.sort(key=lambda alert: _WORST.index(alert.severity))
    return Request(
        action=task.action,
        firing=tuple(alert for alert in there if alert.firing),
        resolved=tuple(alert for alert in there if not alert.firing),
        ongoing=tuple(group.alerts[rule].alert for rule in task.ongoing if rule in group.alerts),
        stop=_stop(group),
        summary=group.summary if task.reason == Send.SUMMARY else None,
        reason=task.reason,
        key=f"{group.run}/{task.id}",
    )


def _stop(group: Group) -> Result | None:
    """What came of stopping the job, last."""
    for entry in reversed(group.log):
        if entry.action == "stop" and entry.outcome is not None:
            return Result(entry.outcome, entry.detail)
    return None


def _tells(alert: Alert) -> bool:
    return any(action.partition(":")[0] in _MESSAGES for action in alert.actions)


def _replaced(group: Group, task: Task) -> Group:
    tasks = tuple(task if each.id == task.id else each for each in group.tasks)
    return replace(group, tasks=tasks)


def _outcome(group: Group, task_id: str, result: Result) -> Group:
    log = tuple(
        replace(entry, outcome=result.outcome, detail=result.detail)
        if entry.task == task_id
        else entry
        for entry in group.log
    )
    return replace(group, log=log)
