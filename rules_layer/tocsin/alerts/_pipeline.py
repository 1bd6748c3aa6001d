"""The stages in their order, and what they decide for a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tocsin.alerts._dedup import dedup, once, repeat_interval
from tocsin.alerts._group import MOST_LOG, Entry, Group, Sent, Task
from tocsin.alerts._inhibit import inhibit
from tocsin.alerts._reason import Hold, Send
from tocsin.alerts._silence import silence
from tocsin.alerts._stage import Batch, Stage, View, identities
from tocsin.alerts._wait import wait
from tocsin.watch import Silence


def stages(action: str) -> tuple[Stage, ...]:
    """What decides whether an action is taken now, in order; then it is taken, and recorded.

    Messages are for people, who want few of them. What is done once for each time that a rule
    fires is a stop, which only a silence holds back, and anything else, such as a metric.
    """
    match action.partition(":")[0]:
        case "email" | "sms" | "webhook":
            return inhibit, silence, dedup, wait
        case "stop":
            return once, silence
        case _:
            return (once,)


@dataclass(frozen=True)
class Claim:
    """Whose the tasks are that are decided, and until when (seconds since the epoch)."""

    owner: str
    until: float


def decide(group: Group, silences: Sequence[Silence], now: float, claim: Claim) -> Group:
    """The group with a task for each action that is to be taken now, claimed; with the reasons in
    the log; and with the time to look again. The stop comes first.
    """
    group = _summed_up(group, silences, now, claim)
    before = group.held
    held: dict[str, str] = {}
    wake: list[float] = []
    for action in _actions(group):
        view = View(group, silences, now)
        batch = _batch(action, view)
        for stage in stages(action):
            batch = stage(batch, view)
        group = _logged(group, _held_entries(batch, before, now))
        held |= {f"{action}|{each.rule}": each.reason for each in batch.held if _told(each.reason)}
        wake += [each.until for each in batch.held if each.until is not None]
        group = _forgone(group, batch)
        if batch.reason is not None and (batch.firing or batch.resolved):
            group = _booked(group, batch, batch.reason, now, claim)
            over = [note for rule, note in batch.firing.items() if rule not in group.firing]
            wake += [now + max(note.alert.notify.wait, 1.0) for note in over]  # to tell that, too
        every = repeat_interval(view)
        if wait in stages(action) and batch.firing and every is not None:
            again = group.sent[action].at + every
            wake += [again] if again > now else []  # past: it comes with the news that waits
    return replace(group, held=held, wake_at=min(wake, default=None))


def _actions(group: Group) -> list[str]:
    named = [action for note in group.alerts.values() for action in note.alert.actions]
    return sorted(dict.fromkeys((*named, *group.sent)), key=lambda action: action != "stop")


def _batch(action: str, view: View) -> Batch:
    """What fires, or has fired and is over before it was told; and what is over of the rest."""
    alerts, sent = view.group.alerts, view.group.sent.get(action) or Sent()
    missed = {
        rule: note.fired
        for rule, note in alerts.items()
        if note.fired is not None and sent.told.get(rule) != note.fired.alert.dedup_id
    }
    firing = {
        rule: note
        for rule, note in {**view.group.firing, **missed}.items()
        if action in note.alert.actions
    }
    resolved = {
        rule: alerts[rule]
        for rule in sent.firing  # what was told to be over is no news when it ends otherwise
        if rule in alerts and rule not in firing and not alerts[rule].alert.firing
    }
    return Batch(action, firing, resolved)


def _forgone(group: Group, batch: Batch) -> Group:
    """What is silenced or inhibited and over already is not told afterwards."""
    sent = group.sent.get(batch.action) or Sent()
    gone = {}
    for each in batch.held:
        note = group.alerts.get(each.rule)
        over = note.fired if note is not None and not note.alert.firing else None
        if over is not None and each.reason in (Hold.SILENCED, Hold.INHIBITED):
            gone[each.rule] = over.alert.dedup_id
    if not gone:
        return group
    sent = replace(sent, told={**sent.told, **gone})
    return replace(group, sent={**group.sent, batch.action: sent})


def _told(reason: Hold) -> bool:
    return reason is not Hold.TOLD  # the log has it already: as sent


def _held_entries(batch: Batch, before: Mapping[str, str], now: float) -> list[Entry]:
    """Only what is held for another reason than before."""
    return [
        Entry(now, each.rule, "hold", each.reason, batch.action, detail=each.detail)
        for each in batch.held
        if _told(each.reason) and before.get(f"{batch.action}|{each.rule}") != each.reason
    ]


def _booked(group: Group, batch: Batch, reason: Send, now: float, claim: Claim) -> Group:
    """The task, and what counts as told from now on: it is done, however often it takes."""
    before = group.sent.get(batch.action) or Sent()
    firing, resolved = identities(batch.firing), identities(batch.resolved)
    new = [rule for rule, id_ in firing.items() if before.firing.get(rule) != id_]
    if reason is Send.REPEAT:
        new = list(firing)
    over = list(resolved)
    held = {each.rule for each in batch.held}
    still = {  # told before; of what is held back it is yet to be told that it is over
        rule: id_
        for rule, id_ in before.firing.items()
        if rule not in firing and (rule in group.firing or rule in held)
    }
    sent = Sent({**still, **firing}, resolved, now, {**before.told, **firing})
    group = replace(group, sent={**group.sent, batch.action: sent})
    return add_task(
        group,
        Task(
            "",
            batch.action,
            reason,
            firing=tuple(new),
            resolved=tuple(over),
            ongoing=tuple(rule for rule in firing if rule not in new),
            dedup_ids={rule: {**firing, **resolved}[rule] for rule in (*new, *over)},
            claim=claim.owner,
            claimed_until=claim.until,
        ),
        now,
    )


def add_task(group: Group, task: Task, now: float) -> Group:
    """The group with one more task, named, and a line in the log for each of its rules."""
    task = replace(task, id=f"{task.action[:40]}#{group.made}")
    lines = [
        Entry(now, rule, "send", task.reason, task.action, task=task.id)
        for rule in task.rules or ("",)
    ]
    return _logged(replace(group, made=group.made + 1, tasks=(*group.tasks, task)), lines)


def _logged(group: Group, entries: Sequence[Entry]) -> Group:
    return replace(group, log=(*group.log, *entries)[-MOST_LOG:]) if entries else group


def _summed_up(group: Group, silences: Sequence[Silence], now: float, claim: Claim) -> Group:
    """A task for each message that the run's end asks for, once; a silence of all the job's rules
    holds it back for good.
    """
    summary = group.summary
    if summary is None or group.summed_up == summary.dedup_id:
        return group
    group = replace(group, summed_up=summary.dedup_id)
    ends = [each.until for each in summary.silences]
    ends += [each.until for each in silences if each.covers_all(group.job)]
    silent = any(now < end.timestamp() for end in ends)
    for action in dict.fromkeys(summary.summary):
        if silent:
            group = _logged(group, [Entry(now, "", "hold", Hold.SILENCED, action)])
        elif wait in stages(action):
            task = Task("", action, Send.SUMMARY, claim=claim.owner, claimed_until=claim.until)
            group = add_task(group, replace(task, dedup_ids={"": summary.dedup_id}), now)
    return group
