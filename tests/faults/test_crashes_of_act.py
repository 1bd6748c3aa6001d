"""``act`` is cut off, and others come in between: what was decided is done, and said in order."""

from __future__ import annotations

import pytest
from tocsin.events import StatusChange

from tests.faults.room import Act, Nested, alert

LIMIT = 30.0  # seconds that an invocation has
RETURN = 180.0  # seconds after which SQS brings a message back
FIRING, RESOLVED, OTHER = ("LossA", "firing"), ("LossA", "resolved"), ("GradientB", "firing")
CHANNELS = ("email", "webhook")
# Calls of the first invocation: a message to look after the stop, the commit, the stop.
AFTER_COMMIT, BEFORE_STOP = 1.5, 2


def story() -> tuple[StatusChange, StatusChange, StatusChange]:
    """A rule fires, another one does, and the first is over."""
    everything = ["stop", "email", "metric", "webhook:ops"]
    return (
        alert("LossA", Sequence=1, Actions=everything, Severity="critical", Evidence={"x": 1.0}),
        alert("GradientB", Sequence=2, Actions=["email"], Severity="critical", Evidence={"x": 2.0}),
        alert("LossA", firing=False, Sequence=3, Actions=everything),
    )


def is_in_order(act: Act, channel: str) -> bool:
    notified = act.notified(channel)
    if FIRING not in notified or RESOLVED not in notified:
        return False
    return notified.index(FIRING) < notified.index(RESOLVED)


def test_a_firing_that_a_crash_held_up_is_sent_before_its_resolution() -> None:
    act = Act(crash_at=AFTER_COMMIT)
    fired, other, over = story()
    assert not act.begin(fired)  # cut off after its first commit
    act.receive(other, over)
    act.now += RETURN
    act.receive(fired)
    act.pass_time(3 * 3600)
    assert act.stopped == ["j1"]
    assert [channel for channel in CHANNELS if not is_in_order(act, channel)] == []


def test_only_what_was_sent_is_listed_as_notified_before() -> None:
    act = Act(crash_at=AFTER_COMMIT)
    fired, other, _ = story()
    assert not act.begin(fired)
    act.receive(other)
    act.pass_time(10)  # until the job is stopped, whose stop was cut off
    assert OTHER in act.notified("email")
    assert act.listed_though_never_sent == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("others", [(1,), (2,), (1, 2)], ids=str)
def test_others_come_in_at_every_call_of_one_that_crashes(
    others: tuple[int, ...], after: bool
) -> None:
    wrong = []
    for at in range(40):
        act, messages = Nested(at=at, after=after, crashes=True), story()
        act.others = [messages[number] for number in others]
        if not act.begin(messages[0]):
            act.queue.append((act.now + RETURN, messages[0]))
        if not act.reached:
            break
        act.receive(*(messages[number] for number in (1, 2) if number not in others))
        act.pass_time(3 * 3600)
        is_right = (
            all(is_in_order(act, channel) for channel in CHANNELS)
            and OTHER in act.notified("email")
            and act.stopped == ["j1"]
            and not act.group().tasks
            and not act.dead
        )
        if not is_right:
            wrong.append(at)
    assert at > 5
    assert wrong == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("others", [(1,), (2,), (1, 2), (0,), (0, 1, 2)], ids=str)
def test_others_come_in_at_every_call_of_one_that_goes_on(
    others: tuple[int, ...], after: bool
) -> None:
    for at in range(40):
        act, messages = Nested(at=at, after=after), story()
        act.others = [messages[number] for number in others]
        act.receive(messages[0])
        if not act.reached:
            break
        act.receive(*(messages[number] for number in (1, 2) if number not in others))
        act.pass_time(3 * 3600)
        for channel in CHANNELS:
            assert is_in_order(act, channel), (at, channel)
            assert act.notified(channel).count(FIRING) == 1, (at, channel)
        assert OTHER in act.notified("email"), at
        assert act.stopped == ["j1"], at
        assert act.metrics == [("LossA", 1.0)], at
        assert (act.group().tasks, act.dead) == ((), []), at
    assert at > 5


@pytest.mark.parametrize(
    "crash_at", [AFTER_COMMIT, BEFORE_STOP], ids=["after the commit", "before the stop"]
)
@pytest.mark.parametrize("more", [[], ["metric"], ["email"]], ids=str)
def test_a_decided_stop_is_carried_out_though_its_message_is_lost(
    crash_at: float, more: list[str]
) -> None:
    act = Act(crash_at=crash_at)
    fired = alert("LossA", Sequence=1, Actions=["stop", *more], Severity="critical")
    assert not act.begin(fired)
    act.pass_time(600)
    assert act.stopped == ["j1"]


@pytest.mark.parametrize(
    "crash_at", [AFTER_COMMIT, BEFORE_STOP], ids=["after the commit", "before the stop"]
)
def test_a_decided_stop_is_carried_out_within_ten_seconds_of_a_crash(crash_at: float) -> None:
    act = Act(crash_at=crash_at)
    fired = alert("LossA", Sequence=1, Actions=["stop"], Severity="critical")
    assert not act.begin(fired)
    act.queue.append((act.now + RETURN, fired))
    act.pass_time(10)
    assert act.stopped == ["j1"]
