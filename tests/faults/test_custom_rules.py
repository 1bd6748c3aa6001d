"""A custom rule that never returns, or that ends the process, is switched off by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tocsin.custom import Rule as SmdebugRule
from tocsin.model import Role, Verdict
from tocsin.rules import HEALTHY, Read, Reads, Rule, State, Step

from tests.faults.room import BAD, START, Room, Training, add_rule

FIRES: dict[str, Any] = {"rule": "VanishingGradient", "for_steps": 1}
BUILT_IN = "VanishingGradient"


@dataclass(frozen=True)
class Settles(Rule):
    """A rule of a user's, which loops until Lambda ends the invocation."""

    first: int = 3
    kill: ClassVar[Callable[[], None]]

    def reads(self) -> Reads:
        return Reads({"g": Read(roles=(Role.GRADIENT,))})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not step.tick and step.step >= self.first:
            type(self).kill()
        return state, HEALTHY


@dataclass(frozen=True)
class AlsoSettles(Settles):
    """Another one."""


@dataclass(frozen=True)
class Quiet(Settles):
    """One that does no harm."""

    first: int = 10**9


@dataclass(frozen=True)
class Waits(Settles):
    """A rule that reads the time, and hangs then."""

    def reads(self) -> Reads:
        return Reads({"g": Read(roles=(Role.GRADIENT,))}, ticks=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.tick:
            type(self).kill()
        return state, HEALTHY


class Loops(SmdebugRule):
    """A rule that was written for smdebug."""

    kill: ClassVar[Callable[[], None]]

    def invoke_at_step(self, step: int) -> bool:
        if step >= 3:
            Loops.kill()
        return False


@pytest.fixture
def room_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Room]:
    def made(*rules: Any) -> Room:
        room = Room(tmp_path, {"rules": [*rules, FIRES]})
        for rule in (Settles, AlsoSettles, Quiet, Waits, Loops):
            monkeypatch.setattr(rule, "kill", room.kill, raising=False)
            add_rule(monkeypatch, rule)
        return room

    return made


def watched(room: Room, seconds: float, *, first_bad: int = 3) -> Training:
    """A job that saves every ten seconds, with a notification of each step and the patrol's."""
    job = room.job()
    room.clock.now = START + 20_000
    end, saved = room.clock.now, 0
    while end < START + 20_000 + seconds:
        gradient = BAD if saved >= first_bad else 1e-2
        key = job.save_at(end, saved, saved - 1 if saved else None, gradient=gradient)
        saved, end = saved + 1, end + 10
        if room.clock.now < end:
            room.survives(job, key)
            room.clock.now = max(room.clock.now, end)
    room.pass_time(1800)
    return job


@pytest.mark.parametrize("name", ["Settles", "Loops"])
def test_a_custom_rule_that_hangs_is_switched_off_and_the_others_go_on(
    room_of: Callable[..., Room], name: str
) -> None:
    room = room_of("Quiet", name, "AlsoSettles")
    job = watched(room, 1200)
    known = room.known(job)
    assert known.statuses == {
        "Quiet": "InProgress",
        name: "Error",
        "AlsoSettles": "Error",
        BUILT_IN: "IssuesFound",
    }
    assert known.steps == 120
    assert "step 3" in known.rules[name].details
    assert "switched off" in known.rules[name].details
    assert {change["Step"] for change in room.changes(BUILT_IN)} == {3}


def test_a_firing_of_a_built_in_rule_does_not_wait_for_a_custom_rule(
    room_of: Callable[..., Room],
) -> None:
    room = room_of("Settles")
    job = room.job()
    job.steps(3)
    job.save(3, previous=2, gradient=BAD)
    room.clock.now = START + 10
    assert not room.survives(job)
    assert [change["Step"] for change in room.changes(BUILT_IN)] == [3]


def test_no_rule_judges_a_step_twice(room_of: Callable[..., Room]) -> None:
    room = room_of("Quiet", "Settles")
    job = watched(room, 600)
    assert room.known(job).rules[BUILT_IN].data_points == 60
    assert room.known(job).rules["Quiet"].data_points == 60


def test_a_rule_that_hangs_as_time_passes_is_switched_off(room_of: Callable[..., Room]) -> None:
    room = room_of("Waits")
    job = room.job()
    job.steps(3)
    room.clock.now = START + 10
    room.look(job)
    for _ in range(4):
        room.wait(700)
        room.survives(job, tick=room.clock.now)
    assert room.known(job).statuses == {"Waits": "Error", BUILT_IN: "InProgress"}
    key = job.save_at(room.clock.now, 3, 2, gradient=BAD)
    assert room.survives(job, key)
    assert room.known(job).statuses == {"Waits": "Error", BUILT_IN: "IssuesFound"}


def test_a_rule_that_exits_python_is_an_error_at_once(
    room_of: Callable[..., Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = room_of("Settles")
    monkeypatch.setattr(Settles, "kill", lambda: sys.exit(3))
    job = room.job()
    job.steps(5)
    room.clock.now = START + 10
    room.look(job)
    known = room.known(job)
    assert known.statuses["Settles"] == "Error"
    assert "SystemExit at step 3" in known.rules["Settles"].details
    assert known.steps == 5


def test_a_rule_is_not_blamed_for_what_happens_after_it(room_of: Callable[..., Room]) -> None:
    room = room_of("Quiet")
    job = room.job()
    job.steps(3)
    for _ in range(4):
        room.clock.now += 1000
        room.cut_off(job)
    room.clock.now += 1000
    room.look(job)
    room.clock.now += 1000
    room.look(job)
    assert room.known(job).statuses["Quiet"] == "InProgress"


def test_custom_rules_that_are_slow_together_are_divided_over_attempts(
    room_of: Callable[..., Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"slow-{number}" for number in range(10)]
    room = room_of(*({"rule": "Settles", "name": name} for name in names))

    def takes_long() -> None:
        room.clock.now += 11
        if room.clock.now >= room.ends:
            room.kill()

    monkeypatch.setattr(Settles, "kill", takes_long)
    job = room.job()
    job.steps(4)
    for _ in range(12):
        room.clock.now += 1000
        room.survives(job)
    known = room.known(job)
    assert known.steps == 4
    assert {known.statuses[name] for name in names} == {"InProgress"}
