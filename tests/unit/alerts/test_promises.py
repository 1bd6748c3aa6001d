"""What holds in every story, of alerts, silences, failures, crashes and time, for each receiver."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tocsin.alerts import Flush, Incoming, Known
from tocsin.watch import Silence

from tests.unit.alerts.world import RUN, Fake, alert

WAIT, REPEAT, PATROL = 10.0, 3600.0, 60.0
RECEIVERS = {
    "A": ["email", "webhook:ops"],
    "B": ["email", "stop"],
    "C": ["email:ana@example.com"],
}
NOTIFY = {"GroupWait": WAIT, "RepeatInterval": REPEAT}


class Story:
    """A run whose rules fire and resolve; ``evaluate`` commits, and messages follow or do not."""

    def __init__(self) -> None:
        self.fake, self.sequence = Fake(), 0
        self.newest: dict[str, Any] = {}
        self.sent: list[Incoming] = []

    def change(self, rule: str, come: bool) -> None:
        before = self.newest.get(rule)
        self.becomes(rule, "InProgress" if before is not None and before.firing else "IssuesFound")
        if come:
            self.fake.receive(self.newest[rule])

    def end(self, rule: str) -> None:
        """A rule that does not fire is not news at the end; only the checkpoint has it."""
        if rule in self.newest and not self.newest[rule].firing:
            self.becomes(rule, "NoIssuesFound")

    def becomes(self, rule: str, status: str) -> None:
        self.sequence += 1
        self.newest[rule] = alert(
            rule,
            RuleEvaluationStatus=status,
            DedupId=f"{rule}-{status}-{self.sequence}",
            Sequence=self.sequence,
            Actions=RECEIVERS[rule],
            Notify=NOTIFY,
            Inhibits=["B"] if rule == "A" else [],
        )
        known = tuple(self.newest.values())
        self.fake.known_runs[RUN] = Known(known, frozenset(RECEIVERS), self.sequence)
        self.sent.append(self.newest[rule])

    def silence(self, rule: str, seconds: float) -> None:
        until = datetime.fromtimestamp(self.fake.now, UTC) + timedelta(seconds=seconds)
        self.fake.silenced.append(Silence(until, rule=rule, id=f"s{len(self.fake.silenced)}"))

    def copy(self, at: int) -> None:
        if self.sent:
            self.fake.receive(self.sent[at % len(self.sent)])

    def crash(self, calls: float) -> None:
        self.fake.crash_at = self.fake.calls + calls

    def fail(self, call: str) -> None:
        self.fake.broken[call] = ConnectionError("away")

    def repair(self) -> None:
        """Broken calls work again, and dead letters are sent again."""
        self.fake.broken.clear()
        dead, self.fake.dead = self.fake.dead, []
        self.fake.receive(*dead)

    def awake(self) -> None:
        """Nothing is due in the past, and nobody is notified twice of the same."""
        self.fake.crash_at = None
        self.fake.pass_time(3 * 3600 + 900 + PATROL)
        wake_at = self.fake.group().wake_at
        assert wake_at is None or wake_at > self.fake.now - PATROL


RULES = st.sampled_from(["A", "A", "B", "C"])
TIME = st.tuples(st.just("time"), st.sampled_from([5.0, 11.0, 11.0, 1000.0, 4000.0]))
STEPS = st.one_of(
    st.tuples(st.just("change"), RULES, st.sampled_from([True, True, False])),
    st.tuples(st.just("change"), RULES, st.just(value=True)),
    TIME,
    TIME,
    st.tuples(st.just("silence"), st.sampled_from(["*", "A", "B"]), st.integers(50, 4000)),
    st.tuples(st.just("end"), RULES),
    st.tuples(st.just("copy"), st.integers(0, 9)),
)
FAILURES = st.one_of(
    st.tuples(st.just("fail"), st.sampled_from(["publish", "post", "stop"])),
    st.tuples(st.just("repair")),
)
CRASH = st.tuples(st.just("crash"), st.integers(0, 12).map(lambda half: half / 2))


def play(steps: Sequence[tuple[Any, ...]]) -> Story:
    story = Story()
    for what, *how in steps:
        if what == "time":
            story.fake.pass_time(how[0])
        else:
            getattr(story, what)(*how)
    story.repair()
    story.fake.receive(Flush(RUN))  # messages that did not come by now are late, not lost
    story.awake()
    return story


def sends(story: Story) -> list[Any]:
    return [entry for entry in story.fake.group().log if entry.decision == "send"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(STEPS, STEPS, FAILURES, CRASH), max_size=16))
def test_every_receiver_is_notified_and_no_task_is_left(
    steps: list[tuple[Any, ...]],
) -> None:
    story = play(steps)
    group = story.fake.group()
    assert group.tasks == ()
    assert story.fake.dead == []
    log = sends(story)
    assert all(entry.outcome in ("done", "already_stopped", "refused") for entry in log)
    firing = {rule for rule, newest in story.newest.items() if newest.firing}
    for rule in firing:
        for action in RECEIVERS[rule]:
            inhibited = rule == "B" and "A" in firing and action != "stop"
            last = group.sent[action].firing.get(rule) if action in group.sent else None
            if not inhibited:
                assert last == story.newest[rule].dedup_id, (rule, action)
    for (action, _, rule), fires in last_heard(story).items():
        # The other way round does not hold: B may resolve, and fire again while A inhibits it.
        assert rule in firing or not fires or action == "stop", "who was notified hears of the end"


def last_heard(story: Story) -> dict[tuple[str, str | None, str], bool]:
    """Whether the rule fires, according to the last event of each receiver."""
    last: dict[tuple[str, str | None, str], bool] = {}
    for event in story.fake.events:
        if event.outcome != "done":
            continue
        place = event.action, event.target, event.rule_configuration_name
        last[place] = "-IssuesFound-" in event.dedup_id
    return last


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=14))
def test_nobody_is_notified_twice_of_the_same(steps: list[tuple[Any, ...]]) -> None:
    story = play(steps)
    at: dict[tuple[str, str], float] = {}
    for entry in sends(story):
        of = entry.action, entry.rule
        if entry.reason == "repeat_interval":
            assert entry.at - at[of] >= REPEAT
        at[of] = entry.at
    last: dict[tuple[Any, ...], str] = {}
    for event in story.fake.events:
        place = event.action, event.target, event.rule_configuration_name
        fires, fired = ("-IssuesFound-" in id_ for id_ in (event.dedup_id, last.get(place, "")))
        assert fires or fired, "the resolution is sent once, to whoever knew that it fires"
        if event.reason != "repeat_interval":
            assert last.get(place) != event.dedup_id
        last[place] = event.dedup_id
