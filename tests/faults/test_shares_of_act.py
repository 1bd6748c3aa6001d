"""One run with much to do does not keep ``act`` from the stops of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tocsin.alerts import Deliver, Known
from tocsin.alerts.pipeline import MOST_ACTIONS
from tocsin.events import RunNews, StatusChange

from tests.faults.room import EPOCH, RUN, Act, alert


def firing(act: Act, rules: int, actions: int) -> RunNews:
    """Rules that fire in one commit, each with actions of its own."""
    alerts: tuple[StatusChange, ...] = tuple(
        alert(
            f"r{number}",
            Sequence=number + 1,
            Severity="critical",
            Actions=[f"webhook:w{number}-{each}" for each in range(actions)],
        )
        for number in range(rules)
    )
    act.known_runs[RUN] = Known(alerts, frozenset(f"r{n}" for n in range(rules)), rules)
    return RunNews("j1", RUN, "r1", "n", alerts, ())


def test_a_run_has_so_many_actions_and_is_told_once_of_the_others() -> None:
    act = Act()
    act.receive(firing(act, rules=200, actions=20))
    outcomes = Counter((event.outcome, event.reason) for event in act.events)
    refused = ("refused", "too_many_actions")
    assert outcomes.pop(refused) == 1
    assert outcomes.total() == len(act.posted) == MOST_ACTIONS
    (said,) = (event.detail for event in act.events if (event.outcome, event.reason) == refused)
    assert "4000 different actions, and at most 50 are taken for one run: 3950 are" in said
    assert act.group().tasks == ()
    assert act.calls < 6 * MOST_ACTIONS
    act.pass_time(3600)
    assert sum(event.reason == "too_many_actions" for event in act.events) == 1


def test_actions_of_rules_that_are_over_leave_room_for_others() -> None:
    act = Act()
    act.receive(firing(act, rules=1, actions=MOST_ACTIONS - 30))
    for number in range(2, 8):
        names = [f"webhook:n{number}-{each}" for each in range(20)]
        act.pass_time(600)
        act.receive(alert("r0", firing=False, Sequence=10 * number, Actions=names))
        act.pass_time(600)
        act.receive(alert("r0", Sequence=10 * number + 1, Severity="critical", Actions=names))
    assert not [event for event in act.events if event.reason == "too_many_actions"]
    assert len(act.group().sent) <= 2 * MOST_ACTIONS


def test_who_decides_stops_at_once_and_leaves_messages_to_others() -> None:
    act = Act()
    actions = ["email", "stop", "metric"]
    fired = alert("A", Severity="critical", Actions=actions, Evidence={"abs_mean": 1e-9})
    act.invoke(act.commit(fired))
    assert (act.stopped, act.published, act.metrics) == (["j1"], [], [])
    assert list(act.handed_on) == [Deliver(RUN)]
    act.invoke(act.handed_on.popleft())
    assert (len(act.published), len(act.metrics)) == (1, 1)
    assert act.subjects[0].endswith("stop requested")
    assert not act.handed_on
    due = act.due[RUN]
    assert due is None or due > act.now


class Interrupted(Act):
    """An invocation that delivers comes before the job is stopped."""

    def _does(self, name: str, do: Callable[[], None]) -> None:
        if name == "stop":
            self.invoke(Deliver(RUN))
            assert self.published == []
        super()._does(name, do)


def test_a_message_waits_for_the_outcome_of_the_stop() -> None:
    act = Interrupted()
    act.invoke(act.commit(alert("A", Severity="critical", Actions=["email", "stop"])))
    assert act.stopped == ["j1"]
    act.invoke(act.handed_on.popleft())
    assert act.subjects[0].endswith("stop requested")


def test_what_was_handed_on_is_found_when_its_message_is_lost() -> None:
    act = Act()
    act.invoke(act.commit(alert("A", Severity="critical")))
    act.handed_on.clear()
    act.pass_time(300)
    assert len(act.published) == 1


class Slow(Act):
    """Each message takes two seconds."""

    def _does(self, name: str, do: object) -> None:
        super()._does(name, do)  # type: ignore[arg-type]
        self.now += 2.0 * (name == "post")


def test_a_run_with_much_to_deliver_makes_room_for_others() -> None:
    act = Slow()
    act.invoke(firing(act, rules=10, actions=1))
    assert (len(act.posted), act.now) == (0, EPOCH)
    rounds = 0
    while act.handed_on:
        started, rounds = act.now, rounds + 1
        act.invoke(act.handed_on.popleft())
        assert act.now - started <= 7
    assert (len(act.posted), rounds) == (10, 4)


def test_who_gets_no_turn_comes_back_later_and_then_leaves_it_to_the_patrol() -> None:
    act = Act()
    act.turn = False
    act.invoke(act.commit(alert("A", Severity="critical")))
    act.invoke(act.handed_on.popleft())
    assert [(at - act.now, message) for at, message in act.queue] == [(2.0, Deliver(RUN, 1))]
    act.invoke(Deliver(RUN, 6))
    assert len(act.queue) == 1
    act.pass_time(600)
    assert act.published == []
    act.turn = True
    act.pass_time(300)
    assert len(act.published) == 1
