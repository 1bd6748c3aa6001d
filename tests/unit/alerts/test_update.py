"""What is news of a run, in whatever order and however often it comes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.alerts import AlertGroup, Known
from tocsin.alerts.group import MOST_RULES
from tocsin.alerts.update import with_alert, with_checkpoint, with_summary
from tocsin.events import EvaluatedSteps, RunSummary

from tests.unit.alerts.world import EPOCH, RUN, Fake, alert

FIRED = alert("A", Sequence=1)
OVER = alert("A", firing=False, Sequence=2)
AGAIN = alert("A", Sequence=3)


@given(st.lists(st.sampled_from([FIRED, OVER, AGAIN]), min_size=1))
def test_the_newest_counts_in_whatever_order_it_comes(came: list[Any]) -> None:
    group = AlertGroup(RUN)
    for one in came:
        group = with_alert(group, one, EPOCH)
    assert group.alerts["A"].alert == max(came, key=lambda one: one.sequence)


@pytest.mark.parametrize(
    "news",
    [
        pytest.param(alert("A", firing=False, PreviousStatus="InProgress"), id="never fired"),
        pytest.param(
            alert("A", RuleEvaluationStatus="Error", PreviousStatus="InProgress"), id="in error"
        ),
    ],
)
def test_what_never_fired_is_no_news(news: Any) -> None:
    assert with_alert(AlertGroup(RUN), news, EPOCH) == AlertGroup(RUN)


def test_without_numbers_another_alert_is_newer_and_no_old_one_comes_back() -> None:
    first, resolved = alert("A", DedupId="1"), alert("A", firing=False, DedupId="2")
    group = with_alert(with_alert(AlertGroup(RUN), first, EPOCH), resolved, EPOCH + 1)
    assert group.alerts["A"].alert == resolved
    for copy in (first, resolved):
        assert with_alert(group, copy, EPOCH + 2) == group


def test_when_it_was_first_seen_stays() -> None:
    group = with_alert(with_alert(AlertGroup(RUN), FIRED, EPOCH), FIRED, EPOCH + 5)
    assert group.alerts["A"].at == EPOCH


def test_a_rule_that_watches_no_more_is_forgotten() -> None:
    group = with_alert(with_alert(AlertGroup(RUN), FIRED, EPOCH), alert("B", Sequence=5), EPOCH)
    known = Known((), frozenset({"C"}), sequence=3)
    assert list(with_checkpoint(group, known, EPOCH).alerts) == ["B"], (
        "B is newer than what is known"
    )


def test_rules_that_are_gone_make_room_for_those_that_watch_now() -> None:
    group = AlertGroup(RUN)
    for number in range(MOST_RULES):
        group = with_alert(group, alert(str(number), Sequence=number + 1), EPOCH)
    new = alert("new", Sequence=MOST_RULES + 1)
    known = Known([new], frozenset({"new"}), MOST_RULES + 1)
    assert list(with_checkpoint(group, known, EPOCH).alerts) == ["new"]


def test_a_checkpoint_that_was_deleted_and_starts_again_is_believed() -> None:
    group = with_summary(with_alert(AlertGroup(RUN), alert("A", Sequence=7), EPOCH), summary())
    again = alert("A", Sequence=1)
    found = with_checkpoint(group, Known([again], frozenset({"A"}), 1), EPOCH)
    assert found.alerts["A"].alert == again
    assert with_summary(found, summary(1, "t")).summary == summary(1, "t")


def test_what_others_made_without_numbers_is_not_forgotten() -> None:
    group = with_alert(AlertGroup(RUN), alert("mine"), EPOCH)
    assert with_checkpoint(group, Known((), frozenset(), 9), EPOCH) == group


def test_there_is_an_end_to_the_rules_of_a_run() -> None:
    group = AlertGroup(RUN)
    for number in range(MOST_RULES + 3):
        group = with_alert(group, alert(str(number)), EPOCH)
    assert len(group.alerts) == MOST_RULES


def test_what_rules_say_is_kept_short() -> None:
    wordy = alert(
        StatusDetails="x" * 5000,
        Evidence={str(key): "y" * 1000 for key in range(100)},
        Actions=["a" * 1000] * 100,
        Inhibits=["b"] * 1000,
        Silences=[{"Until": "2030-01-01T00:00:00Z"}] * 1000,
        Tensor="t" * 9000,
    )
    kept = with_alert(AlertGroup(RUN), wordy, EPOCH).alerts["A"].alert
    assert len(kept.status_details) == len(kept.tensor or "") == 1024
    assert (len(kept.evidence), len(kept.actions), len(kept.actions[0])) == (16, 20, 512)
    assert (len(kept.inhibits), len(kept.silences)) == (50, 20)


def summary(sequence: int = 9, dedup_id: str = "s") -> RunSummary:
    return RunSummary("j1", RUN, dedup_id, sequence=sequence)


def test_an_end_holds_until_something_newer_comes() -> None:
    group = with_summary(with_alert(AlertGroup(RUN), FIRED, EPOCH), summary())
    assert group.ended
    assert with_alert(group, AGAIN, EPOCH).ended, "it was there before the end"
    assert not with_alert(group, alert("B", Sequence=10), EPOCH).ended
    assert not with_alert(group, alert("B"), EPOCH).ended, "nobody knows how old it is"


def test_an_end_that_comes_late_ends_nothing() -> None:
    assert not with_summary(
        with_alert(AlertGroup(RUN), alert("A", Sequence=10), EPOCH), summary()
    ).ended


def test_a_late_copy_of_an_end_before_the_last_is_no_end() -> None:
    first, second = (
        RunSummary("j1", RUN, str(n), sequence=9, steps=EvaluatedSteps(n)) for n in (3, 4)
    )
    group = with_summary(with_summary(AlertGroup(RUN), first), second)
    assert with_summary(group, first) == group


def test_a_second_end_counts_and_a_copy_of_the_first_does_not() -> None:
    group = with_summary(with_summary(AlertGroup(RUN), summary()), summary(12, "t"))
    assert group.summary == summary(12, "t")
    assert with_summary(group, summary()) == group


def test_an_alert_that_is_withdrawn_stays_until_people_know(fake: Fake) -> None:
    fake.receive(FIRED)
    fake.pass_time(10)
    removed = alert("A", firing=False, RuleEvaluationStatus="Stopped", Reason="removed", Sequence=2)
    fake.known_runs[RUN] = Known((), frozenset({"B"}), 2)
    fake.receive(removed)
    fake.pass_time(600)
    assert [mail.subject for mail in fake.published][1:] == ["Tocsin withdrawn: A in j1; removed"]
