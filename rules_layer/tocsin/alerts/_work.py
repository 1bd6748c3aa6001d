"""Take a task: what it comes to, and how the group remembers that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tocsin.actions import Outcome, Ports, Request, Result, take
from tocsin.alerts._group import Entry, Group, Task
from tocsin.alerts._pipeline import Claim, add_task
from tocsin.alerts._reason import Send
from tocsin.events import MOST_SEVERE_FIRST, ActionTaken, StatusChange
from tocsin.watch import NOTIFYING
from tocsin.words import clean

MOST_HANDED = 100
"""Tasks of a run that have failed and are kept for being tried again; the oldest go."""
_DROPPED = Result(Outcome.REFUSED, "it was over, or fired anew, before this could be done")


def still(task: Task, group: Group) -> Task:
    """The task without rules that have fired anew since it was decided, or are not there any more;
    nor is anybody told that a rule fires who was told meanwhile that it is over.
    """
    dropped = (rule for rule in task.dedup_ids if not _holds(task, rule, group))
    return replace(task, dropped=tuple(dropped))


def work(task: Task, group: Group, ports: Ports) -> Result:
    """What comes of the task; what raises is ``failed``: other tasks are still to do."""
    if not task.dedup_ids.keys() - set(task.dropped):
        return _DROPPED
    try:
        return take(_request(task, group), ports)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is this action's alone
        return Result(Outcome.FAILED, clean(f"{type(error).__name__}: {error}", 500))


def finished(group: Group, task: Task, result: Result, now: float, claim: Claim) -> Group:
    """The group in which the task has been taken: its outcome is in the log, and to be told.

    Where the stop guard refused, people are told, if the rule itself would tell nobody.
    """
    if find(group, task.id) is None:
        return group
    group = _replaced(group, replace(task, outcome=result.outcome, detail=result.detail))
    group = _outcome(group, task, result)
    there = [group.alerts[rule].alert for rule in task.firing if rule in group.alerts]
    if not result.guarded or any(map(_notifies, there)):
        return group
    alarm = replace(task, action="email", reason=Send.STOP_GUARD, resolved=(), ongoing=())
    return add_task(group, replace(alarm, claim=claim.owner, claimed_until=claim.until), now)


def handed(group: Group, task: Task, result: Result) -> Group:
    """The group in which the task has failed, and a message of its own tries it again."""
    found = find(group, task.id)
    if found is None:
        return group
    group = _replaced(group, replace(found, handed=True, claim="", claimed_until=0.0))
    failed = [each.id for each in group.tasks if each.handed]
    gone = failed[:-MOST_HANDED]
    group = replace(group, tasks=tuple(each for each in group.tasks if each.id not in gone))
    return _outcome(group, task, result)


def told(group: Group, task: Task, result: Result) -> Group:
    """The group without the task: all is done and told."""
    group = replace(group, tasks=tuple(each for each in group.tasks if each.id != task.id))
    return _outcome(group, task, result)


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


def events(task: Task, group: Group, result: Result) -> Iterator[ActionTaken]:
    """The details of ``Tocsin Action Taken``: one for each rule that the task was for.

    A job is stopped once: the first rule did that, and for others it was stopped already.
    """
    about = group.summary if task.reason == Send.SUMMARY else None
    stopped = False
    for rule, dedup_id in task.dedup_ids.items():
        note = group.alerts.get(rule)
        run_id = about.run_id if about else note.alert.run_id if note else None
        of_rule = _of_rule(task, rule, result)
        outcome, detail = of_rule.outcome, of_rule.detail
        if task.action == "stop" and outcome is Outcome.DONE:
            outcome, stopped = Outcome.ALREADY_STOPPED if stopped else outcome, True
        yield ActionTaken(
            training_job_name=group.job,
            run=group.run,
            run_id=run_id,
            rule_configuration_name=rule,
            action=clean(task.action.partition(":")[0], 80),
            target=clean(task.action.partition(":")[2], 320) or None,
            outcome=outcome,
            reason=task.reason,
            detail=clean(detail, 2000),
            dedup_id=dedup_id,
        )


def _holds(task: Task, rule: str, group: Group) -> bool:
    dedup_id = task.dedup_ids[rule]
    if rule == "":
        return group.summary is not None and group.summary.dedup_id == dedup_id
    alert = _alert(group, rule, dedup_id)
    if alert is None or alert is group.alerts[rule].alert or task.reason == Send.FIRED:
        return alert is not None
    sent = group.sent.get(task.action)
    return sent is not None and sent.firing.get(rule) == dedup_id


def _alert(group: Group, rule: str, dedup_id: str) -> StatusChange | None:
    note = group.alerts.get(rule)
    return note.of(dedup_id) if note else None


def _request(task: Task, group: Group) -> Request:
    kept = ((rule, id_) for rule, id_ in task.dedup_ids.items() if rule not in task.dropped)
    about = (_alert(group, rule, id_) for rule, id_ in kept)
    there = [alert for alert in about if alert is not None]
    there.sort(key=lambda alert: MOST_SEVERE_FIRST.index(alert.severity))
    return Request(
        action=task.action,
        firing=tuple(alert for alert in there if alert.firing),
        resolved=tuple(alert for alert in there if not alert.firing),
        ongoing=tuple(group.firing[rule].alert for rule in task.ongoing if rule in group.firing),
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


def _notifies(alert: StatusChange) -> bool:
    return any(action.partition(":")[0] in NOTIFYING for action in alert.actions)


def _replaced(group: Group, task: Task) -> Group:
    tasks = tuple(task if each.id == task.id else each for each in group.tasks)
    return replace(group, tasks=tasks)


def _outcome(group: Group, task: Task, result: Result) -> Group:
    def with_it(entry: Entry) -> Entry:
        if entry.task != task.id:
            return entry
        of_rule = _of_rule(task, entry.rule, result)
        return replace(entry, outcome=of_rule.outcome, detail=of_rule.detail)

    return replace(group, log=tuple(map(with_it, group.log)))


def _of_rule(task: Task, rule: str, result: Result) -> Result:
    return _DROPPED if rule in task.dropped else result
