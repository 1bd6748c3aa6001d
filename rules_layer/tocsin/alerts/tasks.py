"""Carry out a task, and remember its outcome in the group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tocsin.actions import ActionOutcome, Effects, Lookups, Request, Result, finding, take
from tocsin.alerts.group import (
    MOST_TRIES,
    AlertGroup,
    Claim,
    LogEntry,
    Sent,
    Task,
    pause,
    with_task,
)
from tocsin.alerts.messages import Relaunched
from tocsin.alerts.spending import Spending
from tocsin.alerts.stage import Send
from tocsin.causes import causes_first
from tocsin.events import ActionTaken, StatusChange
from tocsin.watch import NOTIFYING
from tocsin.words import clean

_DROPPED = Result(ActionOutcome.REFUSED, "the rule fired again before this could be done")


def claim_tasks(group: AlertGroup, now: float, claim: Claim) -> AlertGroup:
    """Return the group in which tasks that are due belong to ``claim``: those that a crash left,
    those that have failed some time ago, and those that were handed on to who delivers. None is
    delivered while another invocation stops the job: messages name the outcome of the stop.
    """
    delivers = claim.delivers and not any(_is_stopping(task, now) for task in group.tasks)
    tasks = tuple(
        task.claimed_by(claim, now)
        if task.due_at <= now or (delivers and task.is_handed_on)
        else task
        for task in group.tasks
    )
    return group if tasks == group.tasks else replace(group, tasks=tasks)


def _is_stopping(task: Task, now: float) -> bool:
    return task.action == "stop" and task.outcome is None and task.claimed_until > now


def release_tasks(group: AlertGroup, claim: Claim, now: float) -> AlertGroup:
    """Return the group with the unstarted tasks of ``claim`` handed to another invocation."""
    tasks = tuple(
        replace(task, tries=task.tries - 1).handed_on(now)
        if task.claim == claim.owner and task.action != "stop"
        else task
        for task in group.tasks
    )
    return group if tasks == group.tasks else replace(group, tasks=tasks)


def drop_stale_rules(task: Task, group: AlertGroup) -> Task:
    """Return the task without rules that have fired again since it was decided, or are not
    there."""
    dropped = (rule for rule in task.dedup_ids if not _is_current(task, rule, group))
    return replace(task, dropped=tuple(dropped))


def carry_out(task: Task, group: AlertGroup, lookups: Lookups, effects: Effects) -> Result:
    """Return the outcome of the task. An exception is the outcome ``failed``: other tasks
    remain."""
    if not task.dedup_ids.keys() - set(task.dropped):
        return _DROPPED
    if task.reason == Send.TOO_MANY:
        return Result(ActionOutcome.REFUSED, task.detail)
    try:
        return take(_request(task, group), lookups, effects)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is this action's alone
        return Result(ActionOutcome.FAILED, clean(f"{type(error).__name__}: {error}", 500))


def record_outcome(
    group: AlertGroup, task: Task, result: Result, spending: Spending, claim: Claim
) -> AlertGroup:
    """Return the group in which the task's outcome is in the log, and has yet to be published.

    A stop that was refused for now is decided again later. If it was the stop guard, people are
    notified of it, unless the rule itself does that.
    """
    found, now = group.find_task(task.id), spending.now
    if found is None or found.outcome is not None:
        return group
    known = any(
        entry.reason == Send.STOP_GUARD and entry.rule in task.firing for entry in group.log
    )
    group = _with_changed(group, replace(task, outcome=result.outcome, detail=result.detail))
    group = _with_logged_outcome(group, task, result)
    group = replace(group, spent=spending.added_to(group.spent))
    if result.retry_at is None:
        return _mark_sent(group, task, now)
    before = group.sent.get(task.action) or Sent()
    sent = replace(before, not_before=result.retry_at, refused=not result.guarded)
    group = replace(group, sent={**group.sent, task.action: sent})
    alerts = [group.alerts[rule].alert for rule in task.firing if rule in group.alerts]
    if known or not result.guarded or any(map(_notifies, alerts)):
        return group
    alarm = Task("", "email", Send.STOP_GUARD, firing=task.firing, dedup_ids=task.dedup_ids)
    return with_task(group, alarm.claimed_by(claim, now), now)


def retry_later(
    group: AlertGroup, task: Task, result: Result, now: float, spending: Spending | None = None
) -> AlertGroup:
    """Return the group in which the task has failed, and is tried again after a pause."""
    found = group.find_task(task.id)
    if found is None:
        return group
    if spending is not None:
        group = replace(group, spent=spending.added_to(group.spent))
        found = replace(found, reserved=spending.reserved)
    again = now + pause(found.tries)
    detail = result.detail if found.outcome is None else found.detail
    later = replace(found, claim="", claimed_until=0.0, retry_at=again, detail=detail)
    return _with_logged_outcome(_with_changed(group, later), task, result)


def is_given_up(task: Task) -> bool:
    """Return whether it has failed so often that it is not tried again."""
    return task.tries >= MOST_TRIES


def remove_task(group: AlertGroup, task: Task, result: Result) -> AlertGroup:
    """Return the group without the task, which is done and published."""
    group = replace(group, tasks=tuple(each for each in group.tasks if each.id != task.id))
    return _with_logged_outcome(group, task, result)


def action_events(task: Task, group: AlertGroup, result: Result) -> Iterator[ActionTaken]:
    """Yield one event for each rule of the task.

    A job is stopped once: by the first rule. For the others it was stopped already.
    """
    summary = group.summary if task.reason == Send.SUMMARY else None
    stopped = False
    for rule, dedup_id in task.dedup_ids.items():
        found = group.alerts.get(rule)
        run_id = summary.run_id if summary else found.alert.run_id if found else None
        of_rule = _result_for(rule, task, result)
        outcome = of_rule.outcome
        if task.action == "stop" and outcome is ActionOutcome.DONE:
            outcome, stopped = ActionOutcome.ALREADY_STOPPED if stopped else outcome, True
        yield ActionTaken(
            training_job_name=group.job,
            run=group.run,
            run_id=run_id,
            rule_configuration_name=rule,
            action=clean(task.action.partition(":")[0], 80),
            target=clean(task.action.partition(":")[2], 320) or None,
            outcome=outcome,
            reason=task.reason,
            detail=clean(of_rule.detail, 2000),
            dedup_id=dedup_id,
        )


def with_relaunch(group: AlertGroup, done: Relaunched, now: float, claim: Claim) -> AlertGroup:
    """Return the group in which the outcome of starting the job again has yet to be published.

    A job is started again once; the message may come twice.
    """
    if any(entry.reason == Send.JOB_ENDED for entry in group.log):
        return group
    task = Task(
        "",
        "relaunch",
        Send.JOB_ENDED,
        firing=(done.rule,),
        dedup_ids={done.rule: done.dedup_id},
        outcome=done.outcome,
        detail=done.detail,
    )
    return with_task(group, task.claimed_by(claim, now), now)


def _is_current(task: Task, rule: str, group: AlertGroup) -> bool:
    dedup_id = task.dedup_ids[rule]
    if rule == "":
        return group.summary is not None and group.summary.dedup_id == dedup_id
    alert = _alert(group, rule, dedup_id)
    return alert is not None


def _mark_sent(group: AlertGroup, task: Task, now: float) -> AlertGroup:
    """Return the group with the alerts of the task marked as sent, whatever the outcome."""
    if task.reason in (Send.SUMMARY, Send.TOO_MANY):
        return group
    before = group.sent.get(task.action) or Sent()
    fired = {rule: task.dedup_ids[rule] for rule in task.firing if rule not in task.dropped}
    over = {rule for rule in task.resolved if rule not in task.dropped}
    # What it did between these two messages needs no message of its own.
    missed = {
        rule: each.fired.alert.dedup_id
        for rule in over
        if (each := group.alerts.get(rule)) is not None and each.fired is not None
    }
    still = {rule: id_ for rule, id_ in before.firing.items() if rule not in over}
    sent = replace(
        before,
        firing={**still, **fired},
        at=now if fired or over else before.at,
        not_before=0.0,
        refused=False,
        last_fired={**before.last_fired, **missed, **fired},
    )
    return replace(group, sent={**group.sent, task.action: sent})


def _alert(group: AlertGroup, rule: str, dedup_id: str) -> StatusChange | None:
    found = group.alerts.get(rule)
    return found.find(dedup_id) if found else None


def _request(task: Task, group: AlertGroup) -> Request:
    kept = ((rule, id_) for rule, id_ in task.dedup_ids.items() if rule not in task.dropped)
    found = (_alert(group, rule, id_) for rule, id_ in kept)
    alerts = _in_order(alert for alert in found if alert is not None)
    return Request(
        action=task.action,
        firing=tuple(alert for alert in alerts if alert.firing),
        resolved=tuple(alert for alert in alerts if not alert.firing and not alert.withdrawn),
        withdrawn=tuple(alert for alert in alerts if alert.withdrawn),
        ongoing=tuple(group.firing[rule].alert for rule in task.ongoing if rule in group.firing),
        stop=_last_result("stop", group),
        stopped=any(
            entry.action == "stop" and entry.outcome is ActionOutcome.DONE for entry in group.log
        ),
        relaunch=_last_result("relaunch", group),
        summary=group.summary if task.reason == Send.SUMMARY else None,
        reason=task.reason,
        key=f"{group.run}/{task.id}",
        cause=_cause(next((alert for alert in alerts if alert.firing), None), group),
    )


def _in_order(alerts: Iterable[StatusChange]) -> list[StatusChange]:
    """The alerts in the order of findings."""
    known = {alert.rule_configuration_name: alert for alert in alerts}
    leads = causes_first(map(finding, known.values()))
    return [known[each.name] for lead in leads for each in lead.findings]


def _cause(alert: StatusChange | None, group: AlertGroup) -> StatusChange | None:
    """The finding of the run that explains the alert, if there is one: it may be no alarm."""
    if alert is None:
        return None
    firing = {rule: each.alert for rule, each in group.firing.items()}
    firing |= {alert.rule_configuration_name: alert}
    for lead in causes_first(map(finding, firing.values())):
        if finding(alert) in lead.explains:
            return firing[lead.finding.name]
    return None


def _last_result(action: str, group: AlertGroup) -> Result | None:
    """The outcome of the last attempt to stop the job, or to start it again."""
    for entry in reversed(group.log):
        if entry.action == action and entry.outcome is not None:
            return Result(entry.outcome, entry.detail)
    return None


def _notifies(alert: StatusChange) -> bool:
    return any(action.partition(":")[0] in NOTIFYING for action in alert.actions)


def _with_changed(group: AlertGroup, task: Task) -> AlertGroup:
    """The group with the task in place of the one with its id."""
    tasks = tuple(task if each.id == task.id else each for each in group.tasks)
    return replace(group, tasks=tasks)


def _with_logged_outcome(group: AlertGroup, task: Task, result: Result) -> AlertGroup:
    def updated(entry: LogEntry) -> LogEntry:
        if entry.task != task.id:
            return entry
        of_rule = _result_for(entry.rule, task, result)
        return replace(entry, outcome=of_rule.outcome, detail=of_rule.detail)

    return replace(group, log=tuple(map(updated, group.log)))


def _result_for(rule: str, task: Task, result: Result) -> Result:
    return _DROPPED if rule in task.dropped else result
