"""How a change of status and the end of a run say how people are notified."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec import structs
from tocsin.evaluation import (
    Checkpoint,
    configure,
    decode_checkpoint,
    encode_checkpoint,
    finish,
    fold,
    last_changes,
)
from tocsin.evaluation.judging import MOST_FIRINGS
from tocsin.evaluation.outbox import MOST_SILENCES
from tocsin.events import EvaluatedSteps, NotifyPolicy, RunSilence
from tocsin.model import RuleStatus, Severity
from tocsin.watch import Notify, Refused, Silence, Watch

from .test_fold import run, step, watched

UNTIL = datetime(2026, 12, 1, 8, tzinfo=timezone.utc)


def carried(silence: Silence) -> RunSilence:
    """The silence as an event has it."""
    return RunSilence(silence.until, silence.job, silence.author, silence.reason, silence.id)


def test_changes_are_counted_in_their_order_over_the_whole_run() -> None:
    rules = [watched("vhv", "a", resolve=1), watched("hv", "b")]
    checkpoint = run(rules, map(step, range(3)))
    assert [(change.sequence, change.rule_configuration_name) for change in checkpoint.outbox] == [
        (1, "a"),
        (2, "a"),
        (3, "b"),
        (4, "a"),
    ]
    assert checkpoint.sequence == 4
    checkpoint = configure(checkpoint.published(), [watched("hh", "a"), rules[1]], ())
    assert [(change.sequence, change.rule_configuration_name) for change in checkpoint.outbox] == [
        (5, "a")
    ]


def test_a_rule_that_flaps_ends_up_firing() -> None:
    script = "vh" * (2 * MOST_FIRINGS)
    record = run([watched(script, resolve=1)], map(step, range(len(script)))).rules["Script"]
    assert record.status is RuleStatus.ISSUES_FOUND
    assert record.last_change is not None
    assert record.last_change.step == 2 * (MOST_FIRINGS - 1)
    assert record.last_change.status_details.endswith("and does not resolve again")


def test_the_last_change_of_each_rule_stays_in_the_checkpoint() -> None:
    rules = [watched("vhv", "a", resolve=1), watched("hv", "b"), watched("hhh", "c")]
    bad = Refused("d", "NoSuchRule", "unknown", "f")
    checkpoint = configure(run(rules, map(step, range(3))), rules, [bad])
    kept = last_changes(decode_checkpoint(encode_checkpoint(checkpoint.published())))
    assert [
        (change.sequence, change.rule_configuration_name, change.rule_evaluation_status.value)
        for change in kept
    ] == [
        (3, "b", "IssuesFound"),
        (4, "a", "IssuesFound"),
        (5, "d", "Error"),
    ]
    assert kept[1] == checkpoint.outbox[3]
    assert configure(checkpoint, rules, [bad]) == checkpoint  # an event once


def test_a_newer_configuration_goes_with_what_changes_later() -> None:
    before = run([watched("vhv", resolve=1)], map(step, range(2)))
    rule = replace(
        watched("vhv", resolve=1),
        severity=Severity.CRITICAL,
        actions=("stop",),
        inhibits=("Overfit",),
        policy=NotifyPolicy(0.0),
        silences=(Silence(UNTIL),),
    )
    after = configure(before, [rule], ())
    known = structs.replace(before.rules["Script"], severity=Severity.CRITICAL)
    assert after == structs.replace(before, rules={"Script": known})  # the rule goes on
    change = fold(after, [rule], {"Script": step(2)}).outbox[-1]
    assert (change.severity, change.actions, change.inhibits) == (
        Severity.CRITICAL,
        ("stop",),
        ("Overfit",),
    )
    assert (change.notify, change.silences) == (NotifyPolicy(0.0), (carried(Silence(UNTIL)),))


def test_only_silences_of_the_job_are_told_and_of_many_the_longest() -> None:
    for_job = [Silence(UNTIL + timedelta(days=day), job="j*") for day in range(30)]
    rule = replace(watched("v"), silences=(Silence(UNTIL, job="other"), *reversed(for_job)))
    (change,) = run([rule], [step(0)]).outbox
    assert change.silences == tuple(map(carried, for_job[-MOST_SILENCES:]))


@pytest.mark.parametrize(
    ("scripts", "ending", "status"),
    [
        ([], "marker", None),
        (["hh", "hv"], "marker", RuleStatus.ISSUES_FOUND),
        (["hv", "hx"], "marker", RuleStatus.ISSUES_FOUND),
        (["hh", "hx"], "marker", RuleStatus.ERROR),
        (["hh", "nn"], "marker", RuleStatus.NO_ISSUES_FOUND),
        (["nn"], "marker", RuleStatus.NOT_APPLICABLE),
        (["hh", "nn"], "silence", RuleStatus.STOPPED),
    ],
)
def test_what_a_run_comes_to(scripts: list[str], ending: Any, status: RuleStatus | None) -> None:
    rules = [watched(script, f"r{at}") for at, script in enumerate(scripts)]
    checkpoint = structs.replace(run(rules, map(step, range(2))), steps=2, last_step=1)
    checkpoint = finish(
        checkpoint, rules, ending, Watch(notify=Notify(summary=("email",)), dry_run=True)
    )
    (summary,) = checkpoint.summaries
    assert (summary.rule_evaluation_status, summary.ending) == (status, ending)
    assert summary.steps == EvaluatedSteps(evaluated=2, first=0, last=1)
    assert summary.summary == summary.notify.summary == ("email",)
    assert summary.dry_run
    assert summary.sequence == checkpoint.sequence
    statuses = [record.status for record in checkpoint.rules.values()]
    assert [each.rule_evaluation_status for each in summary.debug_rule_evaluation_statuses] == (
        sorted(statuses, key=lambda status: status is not RuleStatus.ISSUES_FOUND)
    )


def test_an_end_names_the_silences_of_all_the_jobs_rules() -> None:
    every, job = Silence(UNTIL), Silence(UNTIL + timedelta(days=1), job="j*")
    narrower = (
        Silence(UNTIL, rule="a"),
        Silence(UNTIL, severity=Severity.WARNING),
        Silence(UNTIL, job="other"),
    )
    watch = Watch(silences=(job, *narrower, every))
    (summary,) = finish(run([watched("h")], [step(0)]), [], "marker", watch).summaries
    assert summary.silences == (carried(every), carried(job))


def test_nothing_is_left_to_publish_once_it_is() -> None:
    checkpoint = finish(run([watched("hv")], map(step, range(2))), [watched("hv")], "marker")
    assert [type(item).__name__ for item in checkpoint.unpublished] == [
        "StatusChange",
        "RunSummary",
    ]
    assert checkpoint.published().unpublished == ()
    assert Checkpoint("s3://b/j").unpublished == ()


def test_the_most_that_a_watch_file_can_ask_for_is_remembered_and_published() -> None:
    """200 rules with names, actions and silences as long as they may be, in JSON six bytes each."""
    long = Silence(UNTIL, "*" * 256, "*" * 256, author="\x01" * 512, reason="\x01" * 512)
    rules = [
        replace(
            watched("h", f"{at:03}" + "\x01" * 253),
            actions=("\x01" * 512,) * 20,
            silences=(long,) * 100,
        )
        for at in range(200)
    ]
    checkpoint = finish(run(rules, [step(0)]), rules, "marker")
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint
    changes = checkpoint.unpublished[:-1]
    assert {len(change.debug_rule_evaluation_statuses) for change in changes} == {200}
    assert {change.silences for change in checkpoint.outbox} == {(carried(long),) * MOST_SILENCES}


def test_the_statuses_of_all_rules_are_those_at_the_time_of_publishing() -> None:
    rules = [watched("v", "a"), watched("v", "b")]
    checkpoint = run(rules, [step(0)])
    assert [change.debug_rule_evaluation_statuses for change in checkpoint.outbox] == [(), ()]
    for change in checkpoint.unpublished:
        assert [
            (each.rule_configuration_name, each.rule_evaluation_status.value)
            for each in change.debug_rule_evaluation_statuses
        ] == [
            ("a", "IssuesFound"),
            ("b", "IssuesFound"),
        ]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param([watched("vvv", for_steps=2)], ("InProgress", "edited"), id="edited"),
        pytest.param([watched("v", "b")], ("Stopped", "removed"), id="removed"),
        pytest.param([watched("v")], None, id="as it was"),
    ],
)
def test_an_alert_of_a_rule_that_is_no_longer_judged_as_it_was_is_withdrawn(
    after: list[Any], expected: tuple[str, str] | None
) -> None:
    before = run([watched("v")], [step(0)]).published()
    checkpoint = configure(before, after, ())
    changes = [(each.rule_evaluation_status, each.reason) for each in checkpoint.outbox]
    assert changes == ([expected] if expected else [])
    for change in checkpoint.outbox:
        assert change.withdrawn
        assert change.previous_status is RuleStatus.ISSUES_FOUND
        assert expected is not None
        assert expected[1] in change.status_details
        assert change.sequence == checkpoint.sequence == before.sequence + 1
