"""A whole evaluation over the ports in memory: nothing lost, nothing discarded is published."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tocsin.evaluation import (
    Checkpoint,
    EvaluationPorts,
    Hint,
    JobDescription,
    MemoryCheckpoints,
    MemoryCoordination,
    MemoryHints,
    MemoryJobs,
    MemoryPublisher,
    check,
    document,
    evaluate,
    memory_ports,
)
from tocsin.evaluation.evaluator import WAIT
from tocsin.evaluation.messages import COLLECTIONS_WRITTEN
from tocsin.evaluation.settling import SETTLE
from tocsin.events import ConfigurationRefused, RunEvent, RunSummary, StatusChange
from tocsin.model import Mode, Reason, RuleStatus, TensorSummary, Verdict
from tocsin.rules import HEALTHY, Read, Reads, Rule, State, Step, Tensor, violation
from tocsin.tensors import Captured, RunMeta, collections_key, index_key, write_step
from tocsin.watch import Watch

from .conftest import START, Job

STEPS = 4
NOW = START + 100
BAD = {"gradient": 1e-12}
WATCH = {"rules": [{"rule": "VanishingGradient", "for_steps": 1, "resolve": 1}]}


class Remembering(MemoryCheckpoints):
    """Also keeps what every commit wanted published."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: set[str] = set()

    def save(self, checkpoint: Checkpoint, version: str | None) -> str:
        new = super().save(checkpoint, version)
        self.committed |= {item.dedup_id for item in checkpoint.unpublished}
        return new


class Strict(MemoryPublisher):
    """Refuses to publish what no commit holds."""

    def __init__(self, checkpoints: Remembering) -> None:
        super().__init__()
        self.checkpoints = checkpoints

    def publish(self, events: Sequence[RunEvent]) -> None:
        assert {event.dedup_id for event in events} <= self.checkpoints.committed
        super().publish(events)


class Tapped:
    """Passes every call on, with a tap before and after it."""

    def __init__(self, inner: Any, tap: Callable[[str], None]) -> None:
        self._inner = inner
        self._tap = tap

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            self._tap(f"before {name}")
            answer = attribute(*args, **kwargs)
            if isinstance(answer, Iterator):
                answer = iter(list(answer))
            self._tap(f"after {name}")
            return answer

        return call


def tapped(ports: EvaluationPorts, tap: Callable[[str], None]) -> EvaluationPorts:
    return replace(
        ports,
        storage=lambda run: Tapped(ports.storage(run), tap),
        checkpoints=Tapped(ports.checkpoints, tap),
        coordination=Tapped(ports.coordination, tap),
        publisher=Tapped(ports.publisher, tap),
        hints=Tapped(ports.hints, tap),
    )


def some_ports(job: Job, watch: Watch) -> EvaluationPorts:
    checkpoints = Remembering()
    return replace(
        memory_ports(job.storage, lambda: NOW),
        checkpoints=checkpoints,
        publisher=Strict(checkpoints),
        default=watch,
    )


def wake(
    job: Job, ports: EvaluationPorts, owner: str = "a", ends: float = NOW + 60, **hint: Any
) -> None:
    evaluate(Hint(job.storage.url, **hint), ports, owner=owner, ends=ends)


def state(job: Job, ports: EvaluationPorts) -> Checkpoint:
    return ports.checkpoints.load(job.storage.url).checkpoint


def ids(ports: EvaluationPorts) -> list[str]:
    assert isinstance(ports.publisher, MemoryPublisher)
    return [change.dedup_id for change in ports.publisher.published]


def bad_then_good(job: Job, step: int) -> None:
    gradient = 1e-12 if step % 2 else 1e-2
    job.save(step, previous=step - 1 if step else None, gradient=gradient)


@pytest.fixture
def reference(job: Job, watch: Callable[..., Watch]) -> tuple[Watch, Checkpoint, list[str]]:
    """What one invocation over the whole run concludes. The run is left without its last step."""
    watching = watch(*WATCH["rules"])
    for step in range(STEPS):
        bad_then_good(job, step)
    ports = some_ports(job, watching)
    wake(job, ports)
    job.remove(STEPS - 1)
    return watching, state(job, ports), ids(ports)


def number_of_taps(job: Job, watching: Watch) -> int:
    taps: list[str] = []
    wake(job, tapped(some_ports(job, watching), taps.append))
    return len(taps)


def comparable(checkpoint: Checkpoint) -> Checkpoint:
    return checkpoint.published()


@pytest.mark.parametrize("later", [0.0, 1000.0], ids=["lease held", "lease expired"])
def test_two_invocations_interleaved_at_every_external_call(
    job: Job, reference: tuple[Watch, Checkpoint, list[str]], later: float
) -> None:
    watching, expected, expected_ids = reference
    for at in range(number_of_taps(job, watching)):
        ports = some_ports(job, watching)
        calls = itertools.count()

        def tap(
            name: str, at: int = at, ports: EvaluationPorts = ports, calls: Any = calls
        ) -> None:
            if next(calls) == at:  # another step arrives, and wakes a second invocation
                bad_then_good(job, STEPS - 1)
                second = replace(ports, now=lambda: NOW + later)
                wake(job, second, owner="b", ends=NOW + later + 60)

        wake(job, tapped(ports, tap))
        assert next(calls) > at
        assert comparable(state(job, ports)) == comparable(expected), at
        assert list(dict.fromkeys(ids(ports))) == expected_ids, at
        job.remove(STEPS - 1)


class Crash(BaseException):
    pass


@pytest.mark.parametrize("hard", [False, True], ids=["raises", "dies"])
def test_a_crash_at_every_external_call_loses_nothing(
    job: Job, reference: tuple[Watch, Checkpoint, list[str]], hard: bool
) -> None:
    watching, expected, expected_ids = reference
    bad_then_good(job, STEPS - 1)
    for at in range(number_of_taps(job, watching)):
        ports = some_ports(job, watching)
        calls = itertools.count()

        def tap(name: str, at: int = at, calls: Any = calls) -> None:
            reached = next(calls)
            if reached == at or (hard and reached > at):  # a dead process cleans nothing up
                raise Crash(name)

        with pytest.raises(Crash):
            wake(job, tapped(ports, tap))
        later = replace(ports, now=lambda: NOW + 1000)
        wake(job, later, "b", NOW + 1060)
        assert comparable(state(job, ports)) == comparable(expected), at
        assert list(dict.fromkeys(ids(ports))) == expected_ids, at
        wake(job, later, "c", NOW + 1060)  # and nothing is said again once that is recorded
        assert state(job, ports).unpublished == ()


def test_a_duplicate_hint_finds_nothing_and_writes_nothing(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(3)
    ports = some_ports(job, watch("VanishingGradient"))
    wake(job, ports)
    before = ports.checkpoints.load(job.storage.url)
    wake(job, ports)
    assert ports.checkpoints.load(job.storage.url) == before


def test_step_by_step_equals_in_one_go(job: Job, watch: Callable[..., Watch]) -> None:
    watching = watch("VanishingGradient", "LossNotDecreasing", "ExplodingTensor")
    stepwise = some_ports(job, watching)
    for step in range(12):
        job.save(step, previous=step - 1 if step else None, gradient=10.0 ** -(step + 2))
        wake(job, stepwise)
    job.end()
    wake(job, stepwise)
    whole = some_ports(job, watching)
    wake(job, whole)
    assert state(job, stepwise) == state(job, whole)
    assert ids(stepwise) == ids(whole)
    assert state(job, whole).ended == "marker"


def test_what_is_held_sends_a_hint_for_when_it_is_due(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.save(5, previous=3)
    ports = replace(some_ports(job, watch("VanishingGradient")), now=lambda: START + 10)
    wake(job, ports, ends=START + 70)
    assert isinstance(ports.hints, MemoryHints)
    assert ports.hints.sent == [(job.storage.url, "grace", 55.0)]
    assert state(job, ports).steps == 0
    later = replace(ports, now=lambda: START + 65)
    wake(job, later, ends=START + 120)
    assert (state(job, ports).steps, state(job, ports).lost_steps) == (1, 1)


def test_out_of_time_commits_what_is_done_and_sends_one_more_hint(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(5)
    ports = some_ports(job, watch("VanishingGradient"))
    for done in (1, 2, 3, 4):
        wake(job, ports, ends=NOW)
        assert state(job, ports).frontier == done - 1
        assert isinstance(ports.hints, MemoryHints)
        assert ports.hints.sent == [(job.storage.url, "continue", 0.0)] * done
    wake(job, ports)
    assert state(job, ports).steps == 5
    assert len(ports.hints.sent) == 4


class Slow:
    """A clock that each question takes a second further."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@dataclass
class OneTurn:
    taken: str = ""

    def take(self, taker: str, until: float) -> bool:
        if self.taken not in ("", taker):
            return False
        self.taken = taker
        return True

    def give_back(self, taker: str) -> None:
        if self.taken == taker:
            self.taken = ""


def test_a_backlog_needs_a_turn_of_its_owner(job: Job, watch: Callable[..., Watch]) -> None:
    for step in range(12):
        bad_then_good(job, step)
    clock, turns = Slow(), OneTurn()
    slow = replace(
        some_ports(job, watch(*WATCH["rules"])), now=clock, turns={"j1": turns}.__getitem__
    )
    slow = replace(slow, owner=lambda run: "j1")
    wake(job, slow, ends=NOW + 60)
    first = state(job, slow).last_step
    assert first is not None
    assert first < 11, "without a turn it has two seconds"
    turns.taken = "another"
    wake(job, slow, "b", ends=clock.now + 60, continues=True)
    wake(job, slow, "c", ends=clock.now + 60, keys=("late",))
    assert state(job, slow).last_step == first
    assert isinstance(slow.hints, MemoryHints)
    assert [each[1:] for each in slow.hints.sent] == [("continue", 0.0), ("continue", WAIT)]
    turns.taken = ""
    wake(job, slow, "d", ends=clock.now + 60, continues=True)
    second = state(job, slow).last_step
    assert second is not None
    assert second > first
    assert turns.taken == ""
    assert slow.coordination.take(job.storage.url, "e", clock.now, clock.now + 1) is not None


def test_one_look_serves_a_burst_of_collections_files(
    job: Job, watch: Callable[..., Watch]
) -> None:
    bad_then_good(job, 0)
    taps: list[str] = []
    ports = some_ports(job, watch(*WATCH["rules"]))
    hints, now = ports.hints, NOW
    assert isinstance(hints, MemoryHints)
    ports = tapped(replace(ports, now=lambda: now), taps.append)
    for number in range(5000):
        wake(job, ports, keys=(collections_key(f"w{number}"),))
    assert taps == ["before send", "after send"]
    assert [each[1:] for each in hints.sent] == [(COLLECTIONS_WRITTEN, SETTLE)]
    now += SETTLE
    wake(job, ports, configures=True)
    assert state(job, ports).last_step == 0
    wake(job, ports, keys=(collections_key("late"),))
    assert len(hints.sent) == 2, "another burst"
    bad_then_good(job, 1)
    wake(job, ports, keys=(collections_key("late"), index_key(1, "worker_0")))
    assert state(job, ports).last_step == 1, "a step never waits"


def test_the_look_for_collections_files_waits_for_the_end_of_their_burst(
    job: Job, watch: Callable[..., Watch]
) -> None:
    bad_then_good(job, 0)
    taps: list[str] = []
    ports, now = some_ports(job, watch(*WATCH["rules"])), NOW
    hints = ports.hints
    assert isinstance(hints, MemoryHints)
    ports = tapped(replace(ports, now=lambda: now), taps.append)
    due: list[float] = []
    for number in range(1000):  # for a minute; SQS brings each hint a little late
        sent = len(hints.sent)
        wake(job, ports, keys=(collections_key(f"w{number}"),))
        due += [now + SETTLE + 0.03] * (len(hints.sent) - sent)
        now += 0.06
        while due and due[0] <= now:
            del due[0]
            wake(job, ports, configures=True)
    assert set(taps) == {"before send", "after send"}, "no look"
    assert len(hints.sent) <= 60 / SETTLE * 2
    while due:
        now = due.pop(0)
        wake(job, ports, configures=True)
    assert state(job, ports).last_step == 0


@pytest.mark.parametrize("other", [{"tick": NOW}, {"continues": True}])
def test_a_hint_of_more_than_collections_files_never_waits(
    job: Job, watch: Callable[..., Watch], other: dict[str, Any]
) -> None:
    bad_then_good(job, 0)
    ports = some_ports(job, watch(*WATCH["rules"]))
    wake(job, ports, keys=(collections_key("w0"),))
    wake(job, ports, keys=(collections_key("w1"),), configures=True, **other)
    assert state(job, ports).last_step == 0


def test_attempts_that_never_finish_end_with_the_step_given_up(
    job: Job, watch: Callable[..., Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    job.steps(3)
    ports = some_ports(job, watch("VanishingGradient"))
    poison = 1

    def load(ready: Any, *rest: Any) -> Any:
        if ready.step == poison:
            raise MemoryError
        return original(ready, *rest)

    from tocsin.evaluation import reconciliation

    original = reconciliation.load
    monkeypatch.setattr(reconciliation, "load", load)
    outcomes = []
    for attempt in range(8):
        now = NOW + 1000 * attempt  # after a pause
        try:
            wake(job, replace(ports, now=lambda now=now: now), ends=now + 60)
            outcomes.append("done")
        except MemoryError:
            outcomes.append("crashed")
        if state(job, ports).frontier == 2:
            break
    # At full speed; with a commit after each step; twice the bad step alone; then it is given up,
    # and the one after it is taken with care, too.
    assert outcomes == ["crashed"] * 4 + ["done", "done"]
    given_up, healed = published(ports, StatusChange)
    assert given_up.rule_evaluation_status is RuleStatus.ERROR
    assert given_up.status_details.startswith("step 1 was skipped")
    assert (healed.rule_evaluation_status, healed.step) == (RuleStatus.IN_PROGRESS, 2)


def test_a_refused_index_file_is_counted_once_and_harms_no_other_step(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(3)
    job.storage.write("index/000000000/000000000001_worker_0.json", b"{ not json")
    job.touch("index/000000000/000000000001_worker_0.json", START + 1)
    ports = some_ports(job, watch("VanishingGradient"))
    report = evaluate(Hint(job.storage.url), ports, owner="a", ends=NOW + 60)
    assert (state(job, ports).steps, state(job, ports).refused_files) == (2, 1)
    assert len(report.log) == 1
    assert "index/000000000/000000000001_worker_0.json" in report.log[0]
    assert evaluate(Hint(job.storage.url), ports, owner="a", ends=NOW + 60).log == []


def test_a_file_that_came_too_late_is_counted_at_the_end(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.save(0, previous=None)
    job.save(2, previous=1)
    ports = some_ports(job, watch("VanishingGradient"))
    wake(job, ports)
    assert state(job, ports).lost_steps == 1
    job.save(1, previous=0)
    job.end()
    wake(job, ports)
    assert (state(job, ports).late_files, state(job, ports).steps) == (1, 2)


def test_newer_steps_reopen_a_run_that_had_ended(job: Job, watch: Callable[..., Watch]) -> None:
    job.save(0, previous=None)
    ports = some_ports(job, watch("VanishingGradient"))
    silent = replace(ports, now=lambda: START + 24 * 3600)
    wake(job, silent, ends=START + 25 * 3600)
    assert state(job, ports).ended == "silence"
    assert state(job, ports).rules["VanishingGradient"].status.value == "Stopped"
    job.save(1, previous=0)
    wake(job, ports, owner="b")
    assert state(job, ports).ended is None
    assert state(job, ports).rules["VanishingGradient"].status.value == "InProgress"


def test_a_restart_before_the_frontier_starts_rules_again_and_says_so(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(5, **BAD)
    ports = some_ports(job, watch("VanishingGradient"))
    wake(job, ports)
    assert state(job, ports).rules["VanishingGradient"].status.value == "IssuesFound"
    job.run_id = "run-2"
    job.save(2, previous=None)
    job.touch("index/000000000/000000000002_worker_0.json", START + 50)
    key = job.save(3, previous=2)
    job.touch(key, START + 51)
    wake(job, ports, keys=(key,))
    after = state(job, ports)
    assert (after.run_id, after.frontier, after.restarts) == ("run-2", 3, (2,))
    assert after.rules["VanishingGradient"].status.value == "InProgress"
    assert after.rules["VanishingGradient"].details.startswith("evaluated again from step 2")
    assert after.rules["VanishingGradient"].data_points == 2


def test_a_hint_at_an_old_file_of_the_same_start_changes_nothing(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(5)
    ports = some_ports(job, watch("VanishingGradient"))
    wake(job, ports)
    before = state(job, ports)
    wake(job, ports, keys=("index/000000000/000000000002_worker_0.json",))
    assert state(job, ports) == before


def test_a_broken_watch_file_of_the_run_is_refused_and_the_default_watches(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(1)
    job.storage.write("watch.json", b'{"rules": [{"rule": "X", "speed": 1}]}')
    ports = some_ports(job, watch("VanishingGradient"))
    report = evaluate(Hint(job.storage.url), ports, owner="a", ends=NOW + 60)
    assert list(state(job, ports).rules) == ["VanishingGradient"]
    assert "watch.json" in report.log[0]
    assert "speed" in report.log[0]


@dataclass(frozen=True)
class Stalled(Rule):
    """Fires when a tick finds the last step more than a minute old."""

    def reads(self) -> Reads:
        return Reads({"any": Read()}, ticks=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not step.tick:
            return {"last": step.time}, HEALTHY
        idle = step.time - state["last"]
        if idle <= 60:
            return state, HEALTHY
        tensor = Tensor("any", "worker_0", TensorSummary())
        return state, violation(Reason.ABOVE_THRESHOLD, f"idle for {idle:.0f} s", tensor)


def test_time_comes_to_rules_as_ticks_and_only_to_those_that_read_them(
    job: Job, watch: Callable[..., Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tocsin.rules import _registry

    monkeypatch.setattr(_registry, "_rules", {**_registry._rules, "Stalled": Stalled})
    job.steps(2)
    ports = some_ports(job, watch("Stalled", "VanishingGradient"))
    wake(job, ports)
    wake(job, ports, tick=START + 30)
    assert ids(ports) == []
    wake(job, ports, tick=START + 1 + 75)
    record = state(job, ports).rules["Stalled"]
    assert (record.status.value, record.details) == ("IssuesFound", "idle for 75 s")
    assert state(job, ports).rules["VanishingGradient"].data_points == 2


def test_a_missing_event_file_holds_its_step_for_a_minute_and_no_longer(
    job: Job, watch: Callable[..., Watch]
) -> None:
    keys = [job.save(step, previous=step - 1 if step else None) for step in range(3)]
    events = "events/000000000001/000000000001_worker_0.tfevents"
    record = job.storage.read(events)
    (Path(job.storage.url) / events).unlink()
    ports = replace(some_ports(job, watch("ExplodingTensor")), now=lambda: START + 10)
    wake(job, ports, ends=START + 70)
    assert state(job, ports).frontier == 0
    assert isinstance(ports.hints, MemoryHints)
    assert ports.hints.sent == [(job.storage.url, "grace", 51.0)]
    job.storage.write(events, record)
    wake(job, ports, ends=START + 70)
    assert state(job, ports).frontier == 2
    (Path(job.storage.url) / events).unlink()
    late = replace(some_ports(job, watch("ExplodingTensor")), now=lambda: START + 61)
    wake(job, late, ends=START + 120, keys=tuple(keys))
    assert state(job, late).frontier == 2


def test_a_restart_that_only_a_busy_moment_told_of_is_seen_all_the_same(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(5)
    ports = some_ports(job, watch("VanishingGradient"))
    wake(job, ports)
    job.save(5, previous=4)

    def tap(name: str) -> None:
        if name != "before load" or state(job, ports).run_id == "run-2" or job.run_id == "run-2":
            return
        job.run_id = "run-2"
        key = job.save(3, previous=None)
        job.touch(key, START + 50)
        wake(job, ports, owner="b", keys=(key,))  # gets no lease

    wake(job, tapped(ports, tap))
    assert state(job, ports).run_id == "run-2"
    assert state(job, ports).frontier == 3


def test_what_a_restart_left_behind_is_never_taken_for_new(
    job: Job, watch: Callable[..., Watch]
) -> None:
    for step in range(20):
        job.save(step, previous=step - 1 if step else None, gradient=1e-12 if step == 15 else 1.0)
    watching = watch({"rule": "VanishingGradient", "for_steps": 1})
    ports = some_ports(job, watching)
    wake(job, ports)
    job.run_id = "run-2"
    for step in range(5, 9):
        key = job.save(step, previous=step - 1 if step > 5 else None)
        job.touch(key, START + 50 + step)
        wake(job, ports, keys=(key,))
        wake(job, ports, tick=NOW)  # patrol, with nothing new, must not see run-1's steps 9 to 19
        assert (state(job, ports).frontier, state(job, ports).run_id) == (step, "run-2")
    after = state(job, ports)
    assert after.rules["VanishingGradient"].status.value == "InProgress"
    assert after.restarts == (5,)
    assert [item["RuleEvaluationStatus"] for item in document(after)["rules"]] == [
        item["RuleEvaluationStatus"]
        for item in document(check(job.storage, watching, now=lambda: NOW)[0])["rules"]
    ]


def test_a_fired_rule_that_starts_again_gives_an_event(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(5, **BAD)
    ports = some_ports(job, watch("VanishingGradient"))
    wake(job, ports)
    job.run_id = "run-2"
    key = job.save(2, previous=None)
    job.touch(key, START + 50)
    wake(job, ports, keys=(key,))
    assert isinstance(ports.publisher, MemoryPublisher)
    last = ports.publisher.published[-1]
    assert isinstance(last, StatusChange)
    assert (last.previous_status, last.rule_evaluation_status) == ("IssuesFound", "InProgress")
    assert last.status_details.startswith("evaluated again from step 2")


def test_the_end_marker_of_an_earlier_start_ends_nothing(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(2)
    job.end()
    job.touch("training_job_end.ts", START + 2)
    ports = some_ports(job, watch("VanishingGradient"))
    wake(job, ports)
    assert state(job, ports).ended == "marker"
    published = len(ids(ports))
    for step in (2, 3):
        key = job.save(step, previous=step - 1)
        job.touch(key, START + 90 + step)
        wake(job, ports)
        assert state(job, ports).ended is None
    assert len(ids(ports)) == published


def test_a_straggler_shortly_after_the_end_marker_is_still_of_the_run(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.save(0, previous=None)
    job.end()
    job.touch("training_job_end.ts", START)
    job.touch(job.save(1, previous=0), START + 30)
    ports = some_ports(job, watch("VanishingGradient"))
    wake(job, ports)
    assert (state(job, ports).ended, state(job, ports).steps) == ("marker", 2)


def test_hints_without_end_do_not_hold_an_invocation_beyond_its_time(
    job: Job, watch: Callable[..., Watch]
) -> None:
    ports = some_ports(job, watch("VanishingGradient"))
    clock = itertools.count(NOW)
    steps = itertools.count()

    def tap(name: str) -> None:
        if name == "before load":  # every look finds one more step, and one more hint
            step = next(steps)
            job.save(step, previous=step - 1 if step else None)
            ports.coordination.hint(job.storage.url)

    ticking = replace(tapped(ports, tap), now=lambda: float(next(clock)))
    evaluate(Hint(job.storage.url), ticking, owner="a", ends=NOW + 60)
    assert next(clock) < NOW + 60
    assert isinstance(ports.hints, MemoryHints)
    assert ports.hints.sent[-1] == (job.storage.url, "continue", 0.0)
    assert ports.coordination.take(job.storage.url, "b", NOW + 1, NOW + 60) is not None


def test_an_index_file_that_may_not_be_read_is_refused(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(3)
    ports = some_ports(job, watch("VanishingGradient"))

    def tap(name: str) -> None:
        pass

    storage = tapped(ports, tap).storage(job.storage.url)
    denied = "index/000000000/000000000001_worker_0.json"

    class Denying(Tapped):
        def read(self, key: str, limit: int | None = None) -> bytes:
            if key == denied:
                raise PermissionError(f"no access to {key}")
            return job.storage.read(key, limit)

    denying: Any = Denying(storage, tap)
    wake(job, replace(ports, storage=lambda run: denying))
    assert (state(job, ports).frontier, state(job, ports).refused_files) == (2, 1)
    assert state(job, ports).lost_steps == 0


def test_a_folder_that_ends_without_a_step_is_not_looked_at_again(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.storage.write("watch.json", b"{}")
    job.end()
    ports = some_ports(job, watch("VanishingGradient"))
    wake(job, ports)
    assert isinstance(ports.coordination, MemoryCoordination)
    assert ports.coordination.items[job.storage.url].due_at is None


def test_one_grace_hint_is_on_its_way_at_a_time(job: Job, watch: Callable[..., Watch]) -> None:
    ports = replace(some_ports(job, watch("VanishingGradient")), now=lambda: START + 3)
    for step in range(3):
        job.save(step, previous=None, chained=False)
        wake(job, ports, ends=START + 60)
    assert isinstance(ports.hints, MemoryHints)
    assert ports.hints.sent == [(job.storage.url, "grace", 2.0)]


def test_a_rule_that_is_refused_gives_one_event(job: Job, watch: Callable[..., Watch]) -> None:
    ports = some_ports(job, watch("VanishingGradient", "NoSuchRule"))
    for step in range(2):
        job.save(step, previous=step - 1 if step else None)
        report = evaluate(Hint(job.storage.url), ports, owner="a", ends=NOW + 60)
        assert report.errors == (1 if step == 0 else 0)
    assert isinstance(ports.publisher, MemoryPublisher)
    (change,) = ports.publisher.published
    assert isinstance(change, StatusChange)
    assert (change.rule_configuration_name, change.rule_evaluation_status) == (
        "NoSuchRule",
        "Error",
    )
    assert "unknown rule" in change.status_details


def test_tensors_that_cannot_be_read_are_counted(job: Job, watch: Callable[..., Watch]) -> None:
    job.steps(2)
    job.storage.write("events/000000000001/000000000001_worker_0.tfevents", b"short")
    ports = some_ports(job, watch("ExplodingTensor"))
    report = evaluate(Hint(job.storage.url), ports, owner="a", ends=NOW + 60)
    assert (report.refused, state(job, ports).unreadable, state(job, ports).steps) == (1, 1, 2)
    assert "000000000001_worker_0.tfevents" in report.log[0]


def published(ports: EvaluationPorts, kind: type[Any]) -> list[Any]:
    assert isinstance(ports.publisher, MemoryPublisher)
    return [item for item in ports.publisher.published if isinstance(item, kind)]


def test_each_end_of_a_run_gives_one_event(job: Job, watch: Callable[..., Watch]) -> None:
    job.save(0, previous=None)
    watching = watch("VanishingGradient", notify={"summary": ["email"]}, dry_run=True)
    ports = some_ports(job, watching)
    silent = replace(ports, now=lambda: START + 24 * 3600)
    for _ in range(2):
        wake(job, silent, ends=START + 25 * 3600)
    job.save(1, previous=0)
    job.end()
    job.touch("training_job_end.ts", START + 2)
    for _ in range(2):
        wake(job, ports, owner="b")
    first, second = published(ports, RunSummary)
    assert (first.ending, first.steps.evaluated) == ("silence", 1)
    assert first.rule_evaluation_status is RuleStatus.STOPPED
    assert (second.ending, second.steps.evaluated, second.steps.last) == ("marker", 2, 1)
    assert (second.summary, second.notify.summary) == (("email",), ("email",))
    assert second.dry_run
    assert first.dedup_id != second.dedup_id


def refusals(ports: EvaluationPorts) -> list[tuple[str, str]]:
    return [(item.where, item.detail) for item in published(ports, ConfigurationRefused)]


PARTLY_BAD = {
    "rules": [
        {
            "rule": "VanishingGradient",
            "for_steps": 1,
            "actions": ["emial", "metric"],
            "inhibits": ["Overfit"],
        }
    ],
    "notify": {"repeat_interval": 0, "group_wait": "1m"},
    "silences": [{"job": "*"}, {"until": "2099-01-01T00:00:00Z", "reason": "kept"}],
}


def test_what_is_bad_about_alerts_is_published_once_and_the_rest_holds(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.storage.write("watch.json", json.dumps(PARTLY_BAD).encode())
    ports = some_ports(job, watch("ExplodingTensor"))
    for step in range(2):
        job.save(step, previous=step - 1 if step else None, **BAD)
        report = evaluate(Hint(job.storage.url), ports, owner="a", ends=NOW + 60)
        assert report.refused == (4 if step == 0 else 0)
    assert [where for where, _ in refusals(ports)] == [
        "watch.json: silences[0]",
        "watch.json: rules[0].actions[0]",
        "watch.json: rules[0].inhibits[0]",
        "watch.json: notify.repeat_interval",
    ]
    assert state(job, ports).refused_files == 0
    (change,) = published(ports, StatusChange)
    assert change.rule_configuration_name == "VanishingGradient"
    assert change.actions == ("metric",)
    assert (change.notify.group_wait, change.notify.repeat_interval) == (60.0, 14_400.0)
    assert [silence.reason for silence in change.silences] == ["kept"]


def test_a_watch_file_that_is_fixed_and_broken_again_gives_an_event_again(
    job: Job, watch: Callable[..., Watch]
) -> None:
    ports = some_ports(job, watch("ExplodingTensor"))
    bad = b'{"notify": {"repeat_interval": "1s"}}'
    for step, content in enumerate((bad, bad, b"{}", bad, b"{")):
        job.storage.write("watch.json", content)
        job.save(step, previous=step - 1 if step else None)
        wake(job, ports)
    assert [where for where, _ in refusals(ports)] == [
        "watch.json: notify.repeat_interval",
        "watch.json: notify.repeat_interval",
        "watch.json",
    ]


def test_many_faults_are_not_all_published(job: Job, watch: Callable[..., Watch]) -> None:
    job.steps(1)
    job.storage.write("watch.json", json.dumps({"silences": [{}] * 100}).encode())
    ports = some_ports(job, watch("ExplodingTensor"))
    wake(job, ports)
    assert len(refusals(ports)) == 20


def test_a_pattern_that_never_ends_is_reported_once_while_it_is_configured(
    job: Job, watch: Callable[..., Watch]
) -> None:
    evil = r"^(a|aa)+$"
    never_ends = json.dumps({"rules": [{"rule": "VanishingGradient", "exclude": evil}]}).encode()
    name = f"{'a' * 40}!"
    ports = some_ports(job, watch("ExplodingTensor"))
    for step, content in enumerate((never_ends, never_ends, b"{}", never_ends)):
        job.storage.write("watch.json", content)
        write_step(
            job.storage,
            step=step,
            mode=Mode.TRAIN,
            mode_step=step,
            tensors=[Captured(name, 1.0)],
            meta=RunMeta(job.run_id, step - 1 if step else None),
        )
        job.touch(index_key(step, "worker_0"), START + step)
        wake(job, ports)
        wake(job, ports, tick=NOW)
    ((where, why), again) = refusals(ports)
    assert where == again[0] == f"pattern {evil!r} of rule VanishingGradient"
    assert "takes longer than 0.1 s" in why


def test_an_action_of_the_job_that_nobody_can_take_is_published(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.steps(1, **BAD)
    parameters = {
        "rule_to_invoke": "VanishingGradient",
        "action_json": '[{"name": "email", "endpoint": "nobody"}]',
    }
    rules = ({"RuleConfigurationName": "v", "RuleParameters": parameters},)
    ports = replace(some_ports(job, watch()), jobs=MemoryJobs({"j1": JobDescription(rules)}))
    wake(job, ports)
    ((where, why),) = refusals(ports)
    assert where == "DebugRuleConfigurations: rules[0].actions[0]"
    assert "'nobody' is not an e-mail address" in why
    assert published(ports, StatusChange)[0].actions == ()


def test_a_crash_between_remembering_and_publishing_loses_no_news(
    job: Job, watch: Callable[..., Watch]
) -> None:
    job.storage.write("watch.json", json.dumps(PARTLY_BAD).encode())
    job.steps(2, **BAD)
    job.end()
    ports = some_ports(job, watch())

    def tap(name: str) -> None:
        if name == "before publish":
            raise Crash(name)

    with pytest.raises(Crash):
        wake(job, tapped(ports, tap))
    wake(job, replace(ports, now=lambda: NOW + 1000), "b", NOW + 1060)
    assert len(refusals(ports)) == 4
    assert len(published(ports, StatusChange)) == 1
    assert len(published(ports, RunSummary)) == 1
