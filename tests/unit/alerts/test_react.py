"""Whole stories: what people get, whatever is lost, repeated, cut off or late on the way."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tocsin.actions import ActionOutcome, Effects, JobToStop, Result, StopHeld, TopicMessage
from tocsin.alerts import (
    ActReport,
    AlertGroup,
    Flush,
    Incoming,
    Known,
    LogEntry,
    Send,
    Task,
    react,
)
from tocsin.alerts.group import MOST_LOG, Claim
from tocsin.alerts.spending import RunCaps, Spending
from tocsin.alerts.tasks import record_outcome
from tocsin.events import RunSilence, RunSummary, StatusChange
from tocsin.model import Severity
from tocsin.watch import Silence

from tests.unit.alerts import world
from tests.unit.alerts.world import EPOCH, RUN, Crash, Fake

QUICK = {"GroupInterval": 10.0}
ALL = {"Actions": ["stop", "email", "metric"], "Evidence": {"loss": 1.0}}


def alert(rule: str = "A", **fields: Any) -> StatusChange:
    """Messages may follow each other after ten seconds; unless a test is about that."""
    notify = {**QUICK, **fields.pop("Notify", {})}
    return world.alert(rule, Notify=notify, **fields)


def storm(rules: int = 20, **fields: Any) -> list[StatusChange]:
    return [
        alert(f"R{number:02}", Sequence=number + 1, **{**ALL, **fields}) for number in range(rules)
    ]


def outcomes(fake: Fake, action: str) -> Counter[str]:
    return Counter(event.outcome for event in fake.events if event.action == action)


def reasons(fake: Fake, decision: str = "send") -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for entry in fake.group().log:
        if entry.decision == decision:
            found.setdefault((entry.action, entry.rule), []).append(entry.reason)
    return found


def test_a_storm_is_one_email_and_one_stop_with_a_reason_for_each_rule(fake: Fake) -> None:
    alerts = storm()
    fake.receive(*alerts * 10)
    assert fake.stopped == ["j1"]
    assert fake.published == []
    fake.pass_time(10)
    (mail,) = fake.published
    assert mail.attributes["action"] == "email"
    assert "and 19 more" in (mail.subject or "")
    assert outcomes(fake, "email") == {"done": 20}
    assert outcomes(fake, "stop") == {"done": 1, "already_stopped": 19}
    assert sorted(rule for rule, _ in fake.metrics) == [each.rule for each in alerts]
    why = reasons(fake)
    assert {why["email", each.rule][0] for each in alerts} == {"first_notification"}
    assert len(why) == 3 * 20


def test_what_fired_in_one_commit_is_known_at_its_first_message(fake: Fake) -> None:
    alerts = [alert("NaN", Severity="critical", Sequence=1, **ALL), *storm()[1:]]
    fake.known_runs[RUN] = Known(alerts, frozenset(each.rule for each in alerts), 20)
    fake.receive(alerts[7])
    assert len(fake.published) == 1
    assert "NaN and 19 more" in (fake.published[0].subject or "")
    fake.receive(*alerts)
    fake.pass_time(60)
    assert len(fake.published) == len(fake.stopped) == 1


def test_a_critical_one_does_not_wait_and_takes_the_others_along(fake: Fake) -> None:
    fake.receive(alert("slow"), alert("bad", Severity="critical"))
    assert [mail.attributes["rule"] for mail in fake.published] == ["bad"]
    fake.pass_time(60)
    assert len(fake.published) == 1


def test_news_after_a_message_is_a_second_one(fake: Fake) -> None:
    fake.receive(alert("A"))
    fake.pass_time(10)
    fake.receive(alert("B"))
    fake.pass_time(10)
    assert len(fake.published) == 2
    assert reasons(fake)["email", "B"] == ["new_in_group"]


def test_people_are_notified_when_it_resolves_and_again_if_it_fires_again(fake: Fake) -> None:
    fake.receive(alert("A", Sequence=1))
    fake.pass_time(10)
    fake.receive(alert("A", firing=False, Sequence=2))
    fake.pass_time(10)
    assert [mail.attributes["status"] for mail in fake.published] == ["IssuesFound", "InProgress"]
    assert (fake.published[1].subject or "").startswith("Tocsin resolved: A")
    fake.receive(alert("A", Sequence=3))
    fake.pass_time(10)
    assert len(fake.published) == 3
    first, resolved = "first_notification", "all_resolved"
    assert reasons(fake)["email", "A"] == [first, resolved, first]


def test_a_finding_that_gets_worse_is_sent_again_and_stops_the_job(fake: Fake) -> None:
    fake.receive(alert("A", Sequence=1))
    fake.pass_time(10)
    worse = {"Severity": "critical", "PreviousStatus": "IssuesFound", "DedupId": "A at 9"}
    fake.receive(alert("A", Sequence=2, Actions=["stop", "email"], **worse))
    assert fake.stopped == ["j1"]
    fake.pass_time(10)
    assert len(fake.published) == 2


def test_a_firing_that_resolves_before_it_was_sent_is_sent_all_the_same(fake: Fake) -> None:
    fake.receive(alert("A", Sequence=1), alert("A", firing=False, Sequence=2))
    fake.pass_time(9)
    assert fake.published == []
    fake.pass_time(60)
    assert [mail.attributes["status"] for mail in fake.published] == ["IssuesFound", "InProgress"]
    assert reasons(fake)["email", "A"] == ["first_notification", "all_resolved"]


@pytest.mark.parametrize("copies", [1, 3])
def test_a_firing_that_arrives_after_its_own_resolution_is_not_lost(
    fake: Fake, copies: int
) -> None:
    fired, resolved = alert("A", Sequence=1, **ALL), alert("A", firing=False, Sequence=2, **ALL)
    fake.known_runs[RUN] = Known((resolved,), frozenset("A"), 2)
    fake.receive(*[resolved] * copies, *[fired] * copies)
    fake.pass_time(60)
    fake.receive(*[fired] * copies)
    fake.pass_time(60)
    assert [mail.attributes["status"] for mail in fake.published] == ["IssuesFound", "InProgress"]
    assert (fake.stopped, len(fake.metrics)) == (["j1"], 1)


def test_a_firing_that_resolves_during_a_silence_is_never_sent(fake: Fake) -> None:
    silenced(fake)
    fake.receive(alert("A", Sequence=1, **ALL), alert("A", firing=False, Sequence=2, **ALL))
    fake.pass_time(3 * 3600)
    assert (fake.published, fake.stopped) == ([], [])
    assert reasons(fake, "hold") == {("stop", "A"): ["silenced"], ("email", "A"): ["silenced"]}


def test_without_send_resolved_a_resolution_is_not_sent(fake: Fake) -> None:
    quiet = {"Notify": {"SendResolved": False}}
    fake.receive(alert("A", Sequence=1, **quiet))
    fake.pass_time(10)
    fake.receive(alert("A", firing=False, Sequence=2, **quiet))
    fake.pass_time(60)
    assert len(fake.published) == 1


def test_a_rule_that_still_fires_is_sent_again_after_the_interval_until_the_run_ends(
    fake: Fake,
) -> None:
    fake.receive(alert("A"))
    fake.pass_time(8 * 3600 + 200)
    assert [entry.reason for entry in fake.group().log if entry.decision == "send"] == [
        "first_notification",
        "repeat_interval",
        "repeat_interval",
    ]
    fake.receive(RunSummary("j1", RUN, "end"))
    fake.pass_time(24 * 3600)
    assert len(fake.published) == 3
    assert fake.group().wake_at is None


def silenced(fake: Fake, **silence: Any) -> None:
    until = datetime.fromtimestamp(EPOCH, UTC) + timedelta(hours=2)
    fake.silenced.append(Silence(until, reason="known", id="s1", **silence))


def test_a_silence_holds_mail_and_stop_back_and_then_lets_go(fake: Fake) -> None:
    silenced(fake)
    fake.receive(alert("A", Severity="critical", **ALL))
    fake.pass_time(3600)
    assert (fake.published, fake.stopped, len(fake.metrics)) == ([], [], 1)
    assert reasons(fake, "hold") == {("stop", "A"): ["silenced"], ("email", "A"): ["silenced"]}
    fake.pass_time(3600)
    assert (len(fake.published), fake.stopped) == (1, ["j1"])


def test_a_silence_that_is_ended_early_is_noticed(fake: Fake) -> None:
    silenced(fake)
    fake.receive(alert("A"))
    fake.silenced.clear()
    fake.pass_time(16 * 60)
    assert len(fake.published) == 1


def test_a_silence_of_other_rules_leaves_the_rest(fake: Fake) -> None:
    silenced(fake, rule="A")
    fake.receive(alert("A"), alert("B"))
    fake.pass_time(10)
    assert [mail.attributes["rule"] for mail in fake.published] == ["B"]


def test_inhibition_holds_mails_back_but_never_a_stop(fake: Fake) -> None:
    cause = alert("cause", Inhibits=["effect"], Sequence=1)
    fake.receive(cause, alert("effect", Sequence=2, **ALL))
    fake.pass_time(10)
    assert [mail.attributes["rule"] for mail in fake.published] == ["cause"]
    assert fake.stopped == ["j1"]
    fake.receive(alert("cause", firing=False, Sequence=3, Inhibits=["effect"]))
    fake.pass_time(10)
    assert "effect" in fake.published[1].texts["email"], "now nothing speaks for it"


def test_each_receiver_gets_its_own(fake: Fake) -> None:
    fake.receive(
        alert("A", Actions=["email:ana@example.com"]),
        alert("B", Actions=["email:ben@example.com", "email"]),
        alert("C", Actions=["email:ana@example.com", "webhook:ops"]),
    )
    fake.pass_time(10)
    got = {mail.attributes["action"]: mail.texts["email"] for mail in fake.published}
    assert set(got) == {"email:ana@example.com", "email:ben@example.com", "email"}
    assert "C" in got["email:ana@example.com"]
    assert "B" not in (fake.published[0].subject or "")
    assert len(fake.posted) == 1


def test_an_action_that_nobody_can_take_is_refused_and_keeps_none_back(fake: Fake) -> None:
    fake.receive(alert("A", Actions=["dance", "email"]))
    fake.pass_time(10)
    assert outcomes(fake, "dance") == {"refused": 1}
    assert len(fake.published) == 1


def test_a_dry_run_says_what_it_would_do(fake: Fake) -> None:
    fake.receive(alert("A", DryRun=True, Severity="critical", **ALL))
    assert (fake.stopped, fake.published, fake.metrics) == ([], [], [])
    assert {event.outcome for event in fake.events} == {"dry_run"}


def test_the_stop_guard_notifies_people_instead(fake: Fake) -> None:
    fake.guard = StopHeld("10 jobs were stopped within 10 minutes", EPOCH + 600)
    fake.receive(alert("A", Actions=["stop"]))
    assert fake.stopped == []
    assert outcomes(fake, "stop") == {"refused": 1}
    assert [mail.attributes["action"] for mail in fake.published] == ["email"]
    assert fake.guard.why in fake.published[0].texts["email"]
    fake.pass_time(590)
    assert outcomes(fake, "stop") == {"refused": 1}
    fake.guard = StopHeld("others were stopped", EPOCH + 1200)
    fake.pass_time(100)
    assert outcomes(fake, "stop") == {"refused": 2}
    assert len(fake.published) == 1, "people are notified once"
    fake.guard = None
    fake.pass_time(600)
    assert fake.stopped == ["j1"]
    assert outcomes(fake, "stop") == {"refused": 2, "done": 1}


def test_a_stop_that_the_guard_held_back_is_not_done_in_a_silence(fake: Fake) -> None:
    fake.guard = StopHeld("10 jobs were stopped within 10 minutes", EPOCH + 600)
    fake.receive(alert("A", Actions=["stop"]))
    fake.guard = None
    silenced(fake)
    fake.pass_time(3600)
    assert fake.stopped == []


def test_a_job_that_has_ended_meanwhile_is_found_stopped(fake: Fake) -> None:
    assert fake.job is not None
    fake.job = JobToStop(fake.job.arn, "Completed", fake.job.outputs)
    fake.receive(RunSummary("j1", RUN, "end", sequence=5), alert("A", Sequence=3, **ALL))
    assert fake.stopped == []
    assert outcomes(fake, "stop") == {"already_stopped": 1}


def test_the_end_of_a_job_is_summed_up_once(fake: Fake) -> None:
    end = RunSummary("j1", RUN, "end", summary=("email", "stop"))
    fake.receive(end, end, Flush(RUN))
    assert [mail.attributes["action"] for mail in fake.published] == ["email"]
    assert (fake.published[0].subject or "").startswith("Tocsin summary: j1")
    assert fake.stopped == []


def test_a_summary_of_a_silenced_job_is_not_sent(fake: Fake) -> None:
    silenced(fake, job="j*")
    fake.receive(RunSummary("j1", RUN, "end", summary=("email",)))
    assert fake.published == []
    assert reasons(fake, "hold") == {("email", ""): ["silenced"]}


@pytest.mark.parametrize(("ahead", "sent"), [(60, 0), (-60, 1)])
def test_a_silence_of_the_watch_file_holds_a_summary_back(
    fake: Fake, ahead: int, sent: int
) -> None:
    until = datetime.fromtimestamp(EPOCH + ahead, UTC)
    fake.receive(RunSummary("j1", RUN, "end", summary=("email",), silences=(RunSilence(until),)))
    assert len(fake.published) == sent


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"Sequence": 0, "DedupId": "x"}, id="without a number"),
        pytest.param({"Sequence": 2, "DedupId": "x"}, id="newer than the checkpoint"),
        pytest.param({"Sequence": 1, "DedupId": "x"}, id="another than the checkpoint has"),
        pytest.param({"Sequence": 1, "RuleConfigurationName": "B"}, id="of a rule that is none"),
    ],
)
def test_an_event_that_the_checkpoint_does_not_know_does_nothing(
    fake: Fake, forged: dict[str, Any]
) -> None:
    event = alert("A", Actions=["stop", "email"], Severity="critical", **forged)
    real = alert("A", Sequence=1, Notify={"GroupWait": 900})
    for known in (None, Known((real,), frozenset("A"), 1)):
        fake.known_runs.clear()
        if known is not None:
            fake.known_runs[RUN] = known
        report = react(event, fake.ports, ends=fake.now + 30)
        assert "checkpoint does not know it" in report.log[-1]
        assert (fake.stopped, fake.published, fake.bodies) == ([], [], {})


def test_what_fails_is_tried_again_by_itself(fake: Fake) -> None:
    fake.broken["post"] = ConnectionError("no route")
    fake.receive(alert("A", Severity="critical", Actions=["webhook:ops", "email"]))
    assert len(fake.published) == 1, "the failure is the webhook's alone"
    assert outcomes(fake, "webhook") == {"failed": 1}
    fake.pass_time(3600)
    assert (fake.dead, fake.posted) == ([], [])
    entry = next(entry for entry in fake.group().log if entry.action == "webhook:ops")
    assert entry.outcome == "failed"
    fake.broken.clear()
    fake.pass_time(900)
    assert len(fake.posted) == 1
    assert outcomes(fake, "webhook") == {"failed": 1, "done": 1}
    fake.pass_time(3600)
    assert (len(fake.posted), fake.group().tasks) == (1, ())


def test_what_never_works_is_given_up_after_a_day(fake: Fake) -> None:
    fake.broken["post"] = ConnectionError("no route")
    fake.receive(alert("A", Severity="critical", Actions=["webhook:ops"]))
    fake.pass_time(22 * 3600)
    [task] = fake.group().tasks
    fake.pass_time(4 * 3600)
    assert fake.group().tasks == ()
    assert outcomes(fake, "webhook") == {"failed": 2}
    assert (task.retry_at - EPOCH, fake.queue) == (pytest.approx(22 * 3600, abs=1200), deque())


def test_an_outcome_that_the_bus_refuses_is_published_again_and_not_done_again(fake: Fake) -> None:
    fake.broken["event"] = RuntimeError("the bus is away")
    fake.receive(alert("A", Severity="critical"))
    assert len(fake.published) == 1
    fake.broken.clear()
    fake.pass_time(60)
    assert outcomes(fake, "email") == {"done": 1}
    assert len(fake.published) == 1


def test_another_invocation_commits_in_between(fake: Fake) -> None:
    fake.steal = lambda: fake.receive(alert("B", **ALL))
    fake.receive(alert("A", **ALL))
    fake.pass_time(10)
    assert len(fake.published) == 1
    assert outcomes(fake, "email") == {"done": 2}


def test_a_task_that_another_invocation_is_at_is_left_to_it(fake: Fake) -> None:
    fake.crash_at = 3  # after the task is claimed, before the mail is published
    with pytest.raises(BaseException, match=r"^$"):
        fake.react(alert("A", Severity="critical"))
    fake.crash_at = None
    fake.receive(Flush(RUN))
    assert fake.published == []
    fake.now += 32
    fake.receive(Flush(RUN))
    assert len(fake.published) == 1


def test_a_stop_that_failed_is_done_even_if_the_rule_has_resolved_since(fake: Fake) -> None:
    """It was asked for when the rule fired; in what order messages come decides nothing."""
    fake.broken["stop"] = ConnectionError("throttled")
    fake.receive(alert("A", Sequence=1, Actions=["stop"]))
    fake.receive(alert("A", firing=False, Sequence=2, Actions=["stop"]))
    fake.broken.clear()
    fake.pass_time(60)
    assert fake.stopped == ["j1"]
    assert outcomes(fake, "stop") == {"failed": 1, "done": 1}


def test_a_resolution_that_was_sent_is_not_news_at_the_runs_end(fake: Fake) -> None:
    fake.receive(alert("A", Sequence=1))
    fake.pass_time(10)
    fake.receive(alert("A", firing=False, Sequence=2))
    fake.pass_time(10)
    last = alert("A", RuleEvaluationStatus="NoIssuesFound", Sequence=3)
    fake.known_runs[RUN] = Known([last], frozenset({"A"}), 3)
    fake.receive(RunSummary("j1", RUN, "end", sequence=3))
    fake.pass_time(60)
    assert len(fake.published) == 2


def test_a_resolution_during_a_silence_is_sent_when_the_silence_ends(fake: Fake) -> None:
    fake.receive(alert("A", Sequence=1))
    fake.pass_time(10)
    silenced(fake, rule="A")
    fake.receive(alert("A", firing=False, Sequence=2), alert("B", Sequence=3))
    fake.pass_time(3 * 3600)
    assert reasons(fake)["email", "A"] == ["first_notification", "newly_resolved"]


QUIET: dict[str, Any] = {"Notify": {"SendResolved": False}}


def test_without_send_resolved_a_resolution_is_not_sent_beside_news_either(fake: Fake) -> None:
    fake.receive(alert("A", Sequence=1, **QUIET))
    fake.pass_time(10)
    fake.receive(alert("A", firing=False, Sequence=2, **QUIET))
    fake.pass_time(60)
    fake.receive(alert("B", Sequence=3, **QUIET))
    assert len(fake.published) == 1, "a resolution does not hurry news"
    fake.pass_time(10)
    assert "Resolved" not in fake.published[1].texts["email"]
    why = reasons(fake)
    assert (why["email", "A"], why["email", "B"]) == (["first_notification"],) * 2


def test_a_repetition_that_is_due_while_news_wait_is_no_reason_to_look_each_second(
    fake: Fake,
) -> None:
    slow = {"Notify": {"GroupWait": 900, "RepeatInterval": 3600}}
    fake.receive(alert("A", Sequence=1, **slow))
    fake.pass_time(900 + 3600 - 100)
    before = fake.calls
    fake.receive(alert("B", Sequence=2, **slow))
    fake.pass_time(900)
    assert len(fake.published) == 2
    assert fake.calls - before < 12


def test_a_silence_takes_one_look_a_quarter_however_many_alerts_came(fake: Fake) -> None:
    silenced(fake)
    for number in range(50):
        fake.receive(alert(f"R{number}", Sequence=number + 1))
        fake.now += 1
    assert len(fake.queue) == 1
    fake.pass_time(3600)
    assert len(fake.queue) == 1


def test_a_task_that_a_crash_left_is_not_lost_to_the_retry_of_another(fake: Fake) -> None:
    fake.broken["post"] = fake.broken["publish"] = ConnectionError("no route")
    fake.receive(alert("A", Severity="critical", Actions=["webhook:ops"]))
    ((_, retry),) = fake.queue
    fake.queue.clear()
    fake.crash_at = fake.calls + 1  # after the group is committed
    with pytest.raises(Crash):
        fake.react(alert("B", Severity="critical"))
    fake.crash_at = None
    fake.now += 180
    del fake.broken["post"]
    fake.receive(retry)
    fake.broken.clear()
    fake.receive(alert("B", Severity="critical"))  # comes back
    fake.pass_time(60)
    assert (len(fake.posted), len(fake.published), fake.group().tasks) == (1, 1, ())


def test_a_rule_that_has_changed_before_a_retry_is_not_sent_twice(fake: Fake) -> None:
    fake.broken["publish"] = ConnectionError("throttled")
    fake.receive(alert("A", Severity="critical", Sequence=1))
    fake.broken.clear()
    fake.receive(alert("A", firing=False, Severity="critical", Sequence=2))
    fake.receive(alert("A", Severity="critical", Sequence=3))
    fake.pass_time(60)
    assert len(fake.published) == 1
    assert outcomes(fake, "email") == {"failed": 1, "refused": 1, "done": 1}


def test_a_retry_sends_a_firing_before_its_resolution(fake: Fake) -> None:
    fake.broken["publish"] = ConnectionError("throttled")
    quick = {"Notify": {"GroupWait": 0}}
    both = [alert(rule, Sequence=at, **quick) for at, rule in enumerate("AB", 1)]
    fake.known_runs[RUN] = Known(both, frozenset("AB"), 2)
    fake.receive(both[0])
    fake.broken.clear()
    resolved = alert("A", firing=False, Sequence=3, **quick)
    fake.known_runs[RUN] = Known((resolved, both[1]), frozenset("AB"), 3)
    fake.receive(resolved)
    fake.pass_time(60)
    first, late = (mail.texts["email"] for mail in fake.published)
    assert first.startswith("2 rules fired")
    assert late.startswith("A is resolved")
    assert "before:\n  B" in late
    assert [
        (event.rule_configuration_name, event.outcome)
        for event in fake.events
        if event.dedup_id in (both[0].dedup_id, both[1].dedup_id)
    ] == [("A", "failed"), ("B", "failed"), ("A", "done"), ("B", "done")]


def test_the_log_is_right_when_the_bus_is_back(fake: Fake) -> None:
    fake.broken["event"] = RuntimeError("the bus is away")
    fake.receive(alert("A", Severity="critical"))
    assert "not yet on the bus" in fake.group().log[-1].detail
    fake.broken.clear()
    fake.pass_time(60)
    assert "not yet on the bus" not in fake.group().log[-1].detail


def test_decisions_are_counted_when_the_log_is_full(fake: Fake) -> None:
    entries = (LogEntry(EPOCH, "old", "hold", "silenced", "email"),) * MOST_LOG
    fake.save(AlertGroup(RUN, log=entries), None)
    report = fake.react(alert("A", Severity="critical"))
    assert report.sent == {"first_notification": 1}


def test_people_are_notified_of_a_guarded_stop_of_a_rule_that_is_gone(fake: Fake) -> None:
    task = Task("stop#0", "stop", Send.FIRED, ("gone",), dedup_ids={"gone": "id"})
    refused = ActionOutcome.REFUSED
    result = Result(refused, "10 jobs were stopped", retry_at=EPOCH + 600, guarded=True)
    spending, claim = Spending({}, RunCaps(), EPOCH), Claim("me", EPOCH)
    group = record_outcome(AlertGroup(RUN, tasks=(task,)), task, result, spending, claim)
    assert [each.action for each in group.tasks] == ["stop", "email"]


def test_a_silence_of_one_severity_leaves_the_summary(fake: Fake) -> None:
    silenced(fake, severity=Severity.INFO)
    fake.receive(RunSummary("j1", RUN, "end", summary=("email",)))
    assert len(fake.published) == 1


def test_what_takes_long_is_gone_on_with_and_never_cut_off() -> None:
    people = [f"email:{name}@example.com" for name in "abcdefg"]
    slow = SlowFake()
    slow.receive(alert("A", Severity="critical", Actions=people))
    assert slow.invocations > 2
    assert sorted(mail.attributes["action"] for mail in slow.published) == people


class SlowFake(Fake):
    """Each mail takes six seconds; what takes longer than an invocation is cut off."""

    invocations = 0

    def invoke(self, message: Incoming) -> ActReport:
        started, self.invocations = self.now, self.invocations + 1
        report = super().invoke(message)
        assert self.now - started < 30
        return report

    @property
    def effects(self) -> Effects:
        return replace(super().effects, publish=self._slowly)

    def _slowly(self, message: TopicMessage) -> None:
        self.published.append(message)
        self.now += 6


STORY: list[Any] = [
    alert("A", Severity="critical", Sequence=1, **ALL),
    alert("B", Sequence=2, **ALL),
    alert("A", firing=False, Severity="critical", Sequence=3, **ALL),
    RunSummary("j1", RUN, "end", sequence=4, summary=("email",)),
]


def effects_of(fake: Fake) -> Mapping[str, Any]:
    """The effects of a story, for people and for the bus; a stop that was cut off and tried
    again finds the job stopped already.
    """
    return {
        "subjects": [(mail.subject or "").partition(";")[0] for mail in fake.published],
        "stopped": fake.stopped,
        "metrics": fake.metrics,
        "events": Counter(
            (event.action, event.rule_configuration_name, event.dedup_id)
            for event in fake.events
            if event.outcome in ("done", "already_stopped")
        ),
    }


def play(fake: Fake, copies: int = 1) -> Mapping[str, Any]:
    for message in STORY:
        fake.receive(*[message] * copies)
        fake.pass_time(400)
    fake.pass_time(24 * 3600)
    return effects_of(fake)


def test_two_deliveries_of_everything_come_to_the_same() -> None:
    assert play(Fake(), copies=2) == play(Fake())


CALLS = (lambda fake: (play(fake), fake.calls)[1])(Fake())


@pytest.mark.parametrize("call", range(CALLS))
@pytest.mark.parametrize("after", [0.0, 0.5], ids=["before", "after"])
def test_a_crash_at_any_call_loses_nothing_and_repeats_one_thing_at_most(
    call: int, after: float
) -> None:
    right, crashed = play(Fake()), Fake(crash_at=call + after)
    found = play(crashed)
    assert crashed.dead == []
    for what in ("subjects", "stopped", "metrics"):
        lost = Counter(right[what]) - Counter(found[what])
        assert not lost, f"{what} lost: {lost}"
    repeated = sum(
        len(found[what]) - len(right[what]) for what in ("subjects", "stopped", "metrics")
    )
    assert repeated <= 1
    assert set(right["events"]) <= set(found["events"])


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 5))
def test_nothing_depends_on_which_message_comes_first(order: list[int], critical: int) -> None:
    fake, severities = Fake(), {critical: "critical"}
    everything = [
        alert(f"R{at}", Sequence=at + 1, Severity=severities.get(at, "warning"), **ALL)
        for at in range(6)
    ]
    fake.known_runs[RUN] = Known(everything, frozenset(each.rule for each in everything), 6)
    fake.receive(*(everything[at] for at in order))
    fake.pass_time(3600)
    assert (len(fake.published), fake.stopped) == (1, ["j1"])
    assert (fake.published[0].subject or "").startswith(f"Tocsin critical: R{critical} and 5 more")


def test_a_run_is_found_by_nobody_elses_alerts(fake: Fake) -> None:
    other = "s3://captures/jobs/j2"
    fake.receive(alert("A"), alert("A", Run=other, TrainingJobName="j2"))
    fake.pass_time(10)
    assert sorted(mail.attributes["job"] for mail in fake.published) == ["j1", "j2"]
    assert msgspec.structs.replace(fake.group(other), run=RUN).job == "j2"


def test_a_mail_names_a_likely_cause_that_is_no_alarm(fake: Fake) -> None:
    inputs = alert("inputs", Rule="NotNormalizedData", Severity="info", Sequence=1, Actions=[])
    fake.receive(inputs, alert("skill", Rule="NoSkill", Sequence=2))
    fake.pass_time(10)
    assert "Likely cause: inputs (NotNormalizedData), info" in fake.published[0].texts["email"]


def test_a_mail_begins_with_the_cause_and_folds_what_it_explains(fake: Fake) -> None:
    nan = alert("nan", Rule="ExplodingTensor", Severity="critical", Sequence=2)
    fake.receive(alert("pull", Rule="UpdateTooLarge", Sequence=1), nan)
    fake.pass_time(10)
    text = fake.published[0].texts["email"]
    assert fake.published[0].attributes["rule"] == "pull"
    assert text.index("1. pull (UpdateTooLarge)") < text.index("Explained by these:")
    assert "Likely cause" not in text
