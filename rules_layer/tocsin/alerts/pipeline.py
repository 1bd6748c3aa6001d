"""The stages in order, and their decisions for a run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from tocsin.alerts.group import AlertGroup, Claim, LogEntry, Sent, Task, with_entries, with_task
from tocsin.alerts.inhibit import inhibit
from tocsin.alerts.silence import silence
from tocsin.alerts.stage import Batch, Hold, Send, Stage, View, identities
from tocsin.alerts.timing import dedup, once, repeat_interval, wait
from tocsin.watch import Silence
from tocsin.words import clean


def stages(action: str) -> tuple[Stage, ...]:
    """Return the stages that decide whether an action is taken now, in order.

    Messages are for people, who want few of them. A stop, a relaunch and a metric are taken once
    each time that a rule fires; only a silence holds the first two back.
    """
    match action.partition(":")[0]:
        case "email" | "sms" | "webhook":
            return inhibit, silence, dedup, wait
        case "stop" | "relaunch":
            return once, silence
        case _:
            return (once,)


MOST_ACTIONS = 50
"""Different actions of a run. Each is decided by itself, and more are not taken."""


def decide(group: AlertGroup, silences: Sequence[Silence], now: float, claim: Claim) -> AlertGroup:
    """Return the group with a claimed task for each action that is to be taken now, the stop first;
    with the reasons in the log; and with the time to decide again.

    A rule that an unfinished task of an action is about waits for that task's end. So a firing is
    sent before its resolution, and the invocation that finishes a task decides that action again.
    """
    group = _with_summary_tasks(group, silences, now, claim)
    actions = _actions(group)
    group = _refuse(actions[MOST_ACTIONS:], _forget(group, actions), now, claim)
    before, wake_at = group.held, _summary_due(group)
    group = replace(group, held={}, wake_at=wake_at)
    for action in actions[:MOST_ACTIONS]:
        group = _decide_one(action, group, before, View(group, silences, now), claim)
    return group


def decide_again(
    action: str, group: AlertGroup, silences: Sequence[Silence], now: float, claim: Claim
) -> AlertGroup:
    """Return the group after a task of this action: what had to wait for it is decided, and only
    that."""
    if action not in _actions(group)[:MOST_ACTIONS]:
        return group
    others = {key: why for key, why in group.held.items() if not key.startswith(f"{action}|")}
    before, group = group.held, replace(group, held=others)
    return _decide_one(action, group, before, View(group, silences, now), claim)


def _decide_one(
    action: str, group: AlertGroup, before: Mapping[str, str], view: View, claim: Claim
) -> AlertGroup:
    """The group with the decision on one action; ``before`` is what was held back already."""
    batch, now = _batch(action, view), view.now
    for stage in stages(action):
        batch = stage(batch, view)
    reasons = {f"{action}|{entry.rule}": entry for entry in _held_entries(batch, now)}
    new = (entry for key, entry in reasons.items() if before.get(key) != entry.reason)
    group = _drop_resolved(with_entries(group, *new), batch)
    if batch.reason is not None and (batch.firing or batch.resolved):
        group = with_task(group, _task(batch, batch.reason, view).claimed_by(claim, now), now)
    held = {key: entry.reason for key, entry in reasons.items()}
    known = () if group.wake_at is None else (group.wake_at,)
    wake_at = min((*known, *_wake_times(batch, view)), default=None)
    return replace(group, held={**group.held, **held}, wake_at=wake_at)


def _actions(group: AlertGroup) -> list[str]:
    """The actions that there may be something to do for: the stop, the relaunch, then those that
    were taken before, then new ones.
    """
    alerts = [alert for each in group.alerts.values() for alert in (each, each.fired) if alert]
    named = dict.fromkeys(action for each in alerts for action in each.alert.actions)
    firing = [action for action, sent in group.sent.items() if sent.firing.keys() & group.alerts]
    ordered = dict.fromkeys((*firing, *(each for each in named if each in group.sent), *named))
    return sorted(ordered, key=lambda action: (action != "stop", action != "relaunch"))


def _forget(group: AlertGroup, actions: Collection[str]) -> AlertGroup:
    """The group without what other actions have sent, but for the latest of them."""
    others = sorted(group.sent.keys() - actions, key=lambda action: group.sent[action].at)
    gone = {*others[:-MOST_ACTIONS]}
    if not gone:
        return group
    return replace(group, sent={key: sent for key, sent in group.sent.items() if key not in gone})


def _refuse(beyond: Sequence[str], group: AlertGroup, now: float, claim: Claim) -> AlertGroup:
    """Return the group with one task that reports how many further actions are refused."""
    if len(beyond) <= group.beyond:
        return replace(group, beyond=len(beyond))
    named = {action: each.alert for each in group.alerts.values() for action in each.alert.actions}
    action = next((action for action in beyond if action in named), None)
    group = replace(group, beyond=len(beyond))
    if action is None:
        return group
    detail = (
        f"the rules of this run name {len(beyond) + MOST_ACTIONS} different actions, and at most "
        f"{MOST_ACTIONS} are taken for one run: {len(beyond)} are refused, such as "
        f"{', '.join(clean(each, 80) for each in beyond[:3])}; name fewer in its watch file"
    )
    about = {named[action].rule_configuration_name: named[action].dedup_id}
    task = Task("", action, Send.TOO_MANY, dedup_ids=about, detail=detail)
    return with_task(group, task.claimed_by(claim, now), now)


def _batch(action: str, view: View) -> Batch:
    """The rules that fire, or fired and resolved before that was sent; and of the rest those that
    are resolved. People who know that a rule fires need not hear that it did so again meanwhile.
    """
    alerts, sent = view.group.alerts, view.group.sent.get(action) or Sent()
    busy = {rule for task in view.group.unfinished if task.action == action for rule in task.rules}
    known = sent.firing if wait in stages(action) else {}
    missed = {
        rule: each.fired
        for rule, each in alerts.items()
        if each.fired is not None
        and rule not in known
        and sent.last_fired.get(rule) != each.fired.alert.dedup_id
    }
    firing = {
        rule: each
        for rule, each in {**view.group.firing, **missed}.items()
        if action in each.alert.actions and rule not in busy
    }
    resolved = {
        rule: alerts[rule]
        for rule in sent.firing  # a rule that was sent as resolved is no news when the run ends
        if rule in alerts and rule not in {*firing, *busy} and not alerts[rule].alert.firing
    }
    return Batch(action, firing, resolved)


def _held_entries(batch: Batch, now: float) -> list[LogEntry]:
    """Return new lines for the log."""
    return [
        LogEntry(now, each.rule, "hold", each.reason, batch.action, detail=each.detail)
        for each in batch.held
        if each.reason is not Hold.SENT_BEFORE
    ]


def _drop_resolved(group: AlertGroup, batch: Batch) -> AlertGroup:
    """The group in which a firing that is silenced or inhibited, and resolved already, counts as
    sent: it is never sent afterwards.
    """
    dropped = {}
    for each in batch.held:
        found = group.alerts.get(each.rule)
        fired = found.fired if found is not None and not found.alert.firing else None
        if fired is not None and each.reason in (Hold.SILENCED, Hold.INHIBITED):
            dropped[each.rule] = fired.alert.dedup_id
    if not dropped:
        return group
    sent = group.sent.get(batch.action) or Sent()
    sent = replace(sent, last_fired={**sent.last_fired, **dropped})
    return replace(group, sent={**group.sent, batch.action: sent})


def _task(batch: Batch, reason: Send, view: View) -> Task:
    """The task that sends the batch."""
    before = batch.sent(view) or Sent()
    firing, resolved = identities(batch.firing), identities(batch.resolved)
    new = [
        rule
        for rule, id_ in firing.items()
        if reason is Send.REPEAT or before.firing.get(rule) != id_
    ]
    return Task(
        "",
        batch.action,
        reason,
        firing=tuple(new),
        resolved=tuple(resolved),
        ongoing=tuple(rule for rule in firing if rule not in new),
        dedup_ids={rule: {**firing, **resolved}[rule] for rule in (*new, *resolved)},
    )


def _wake_times(batch: Batch, view: View) -> Iterator[float]:
    """Yield when to look at the action again, if not at the end of its task."""
    yield from (each.until for each in batch.held if each.until is not None)
    sent, interval = batch.sent(view), repeat_interval(view)
    if wait in stages(batch.action) and batch.firing and sent is not None and interval is not None:
        again = sent.at + interval
        if again > view.now:  # else it comes with the news that wait
            yield again


def _with_summary_tasks(
    group: AlertGroup, silences: Sequence[Silence], now: float, claim: Claim
) -> AlertGroup:
    """The group with a task for each message that the run's end asks for, once. A run that ends
    again within ``group_interval`` waits with that; a silence of all the job's rules holds it back
    for good.
    """
    summary, due = group.summary, _summary_due(group)
    if summary is None or due is None or now < due:
        return group
    group = replace(group, summary_sent=summary.dedup_id, summary_at=now)
    ends = [each.until for each in summary.silences]
    ends += [each.until for each in silences if each.covers_all(group.job)]
    silent = any(now < end.timestamp() for end in ends)
    for action in dict.fromkeys(summary.summary):
        if silent:
            group = with_entries(group, LogEntry(now, "", "hold", Hold.SILENCED, action))
        elif wait in stages(action):
            task = Task("", action, Send.SUMMARY, dedup_ids={"": summary.dedup_id})
            group = with_task(group, task.claimed_by(claim, now), now)
    return group


def _summary_due(group: AlertGroup) -> float | None:
    """Return when the summary of the run may be sent; None if it was, or there is none."""
    summary = group.summary
    if summary is None or group.summary_sent == summary.dedup_id:
        return None
    return group.summary_at + summary.notify.interval if group.summary_at else 0.0
