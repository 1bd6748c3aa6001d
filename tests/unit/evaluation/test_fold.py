from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.evaluation import (
    Checkpoint,
    configure,
    decode_checkpoint,
    encode_checkpoint,
    finish,
    fold,
)
from tocsin.model import Mode, Reason, RuleStatus, Severity, TensorSummary
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    violation,
)
from tocsin.watch import Options, Watched

TENSOR = Tensor("t", "worker_0", TensorSummary())


@dataclass(frozen=True)
class Script(Rule):
    """Says at each step what its script has there: v, i or c (a violation, one of severity info or
    critical), h, u, n, x (raises) or b (a big state)."""

    advice: ClassVar[str] = ""
    script: str = ""

    def reads(self) -> Reads:
        return Reads({"all": Read()}, ticks=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Any]:
        if step.tick:
            return state, violation(Reason.TOO_EARLY, "tick", TENSOR, now=step.time)
        said = self.script[step.step] if step.step < len(self.script) else "h"
        seen = {"seen": state.get("seen", 0) + 1}
        if said == "x":
            raise RuntimeError("boom")
        if said == "b":
            return {"big": "y" * 300_000}, HEALTHY
        found = violation(Reason.ABOVE_THRESHOLD, f"bad {step.step}", TENSOR, n=step.step)
        verdict = {
            "v": found,
            "i": replace(found, severity=Severity.INFO),
            "c": replace(found, severity=Severity.CRITICAL),
            "h": HEALTHY,
            "u": UNDECIDED,
            "n": not_applicable(Reason.NO_TENSOR, "nothing"),
        }[said]
        return seen, verdict


def watched(script: str, name: str = "Script", **options: Any) -> Watched:
    rule = Script(script)
    return Watched(
        name, "Script", rule, rule.reads(), Options(**options), Severity.WARNING, ("email",),
        dry_run=False, fingerprint=script,
    )  # fmt: skip


def step(number: int, mode: Mode = Mode.TRAIN, mode_step: int | None = None) -> Step:
    at = number if mode_step is None else mode_step
    return Step(number, mode, at, 1000.0 + number, {"all": (TENSOR,)})


def run(rules: Iterable[Watched], steps: Iterable[Step]) -> Checkpoint:
    rules = tuple(rules)
    checkpoint = configure(Checkpoint("s3://b/j", first_step=0, first_time=1000.0), rules, ())
    for one in steps:
        checkpoint = fold(checkpoint, rules, {rule.name: one for rule in rules})
    return checkpoint


def history(script: str, **options: Any) -> list[tuple[int, str]]:
    """When the status became what."""
    checkpoint = run([watched(script, **options)], map(step, range(len(script))))
    return [(change.step, change.rule_evaluation_status.value) for change in checkpoint.outbox]


@pytest.mark.parametrize(
    ("script", "options", "expected"),
    [
        ("hhh", {}, []),
        ("nnn", {}, []),
        ("hvv", {}, [(1, "IssuesFound")]),
        ("vhv", {"for_steps": 2}, []),
        ("vvh", {"for_steps": 2}, [(1, "IssuesFound")]),
        ("vuv", {"for_steps": 2}, [(2, "IssuesFound")]),
        ("vnv", {"for_steps": 2}, [(2, "IssuesFound")]),
        ("vhhhvh", {}, [(0, "IssuesFound")]),
        ("vhhv", {"resolve": 2}, [(0, "IssuesFound"), (2, "InProgress"), (3, "IssuesFound")]),
        ("vhvhh", {"resolve": 2}, [(0, "IssuesFound"), (4, "InProgress")]),
        ("vhuh", {"resolve": 2}, [(0, "IssuesFound"), (3, "InProgress")]),
        ("vvv", {"start_step": 2}, [(2, "IssuesFound")]),
        ("hhv", {"end_step": 2}, []),
        ("hvhv", {"every": 2}, []),
        ("hhvh", {"every": 2}, [(2, "IssuesFound")]),
        ("vvv", {"grace_steps": 2}, [(2, "IssuesFound")]),
        ("vvvv", {"grace_seconds": 3.0}, [(3, "IssuesFound")]),
        ("vvvv", {"mode": Mode.EVAL}, []),
        ("hxv", {}, [(1, "Error")]),
        ("vxv", {}, [(0, "IssuesFound")]),
        ("hbv", {}, [(1, "Error")]),
    ],
)
def test_when_a_status_changes(
    script: str, options: dict[str, Any], expected: list[tuple[int, str]]
) -> None:
    assert history(script, **options) == expected


def test_files_that_are_older_than_the_first_are_in_no_grace() -> None:
    """As those of a run that was copied, in the order of a folder."""
    copied = [replace(step(at), time=999.0) for at in range(2)]
    assert run([watched("hv")], copied).rules["Script"].status is RuleStatus.ISSUES_FOUND


def test_a_fired_rule_goes_on_counting() -> None:
    record = run([watched("hvvhv")], map(step, range(5))).rules["Script"]
    assert (record.violations, record.data_points, record.status) == (
        3,
        5,
        RuleStatus.ISSUES_FOUND,
    )
    assert record.first_violation
    assert (record.first_violation.step, record.first_violation.evidence) == (1, {"n": 1})


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("iic", [(0, "info"), (2, "critical")]),
        ("ivvc", [(0, "info"), (1, "warning"), (3, "critical")]),
        ("cvi", [(0, "critical")]),
        ("ihv", [(0, "info"), (2, "warning")]),
    ],
)
def test_a_finding_that_gets_worse_is_news(script: str, expected: list[tuple[int, str]]) -> None:
    own = replace(watched(script), own_severity=True)
    checkpoint = run([own], map(step, range(len(script))))
    changes = checkpoint.outbox
    assert [(change.step, change.severity.value) for change in changes] == expected
    assert {change.rule_evaluation_status for change in changes} == {RuleStatus.ISSUES_FOUND}
    record = checkpoint.rules["Script"]
    assert record.first_violation
    assert record.first_violation.step == expected[-1][0]
    assert (record.severity, record.details) == (expected[-1][1], f"bad {expected[-1][0]}")


def test_the_first_violation_of_a_streak_is_kept_and_the_deciding_one_published() -> None:
    checkpoint = run([watched("hvvv", for_steps=3)], map(step, range(4)))
    first = checkpoint.rules["Script"].first_violation
    (change,) = checkpoint.outbox
    assert first
    assert (first.step, change.step, change.status_details) == (1, 3, "bad 3")
    assert (change.reason, change.evidence) == ("above_threshold", {"n": 3})


def test_steps_of_a_mode_are_counted_in_that_mode() -> None:
    rule = watched("hhhhhhhvvv", start_step=2, mode=Mode.EVAL)
    steps = [step(7, Mode.EVAL, 1), step(8, Mode.TRAIN, 5), step(9, Mode.EVAL, 2)]
    assert [change.step for change in run([rule], steps).outbox] == [9]


def test_one_bad_rule_harms_no_other() -> None:
    rules = [watched("x", "bad"), watched("hv", "good")]
    checkpoint = run(rules, map(step, range(3)))
    assert {name: record.status.value for name, record in checkpoint.rules.items()} == {
        "bad": "Error",
        "good": "IssuesFound",
    }
    assert "RuntimeError at step 0: boom" in checkpoint.rules["bad"].details
    assert checkpoint.rules["bad"].disabled


@pytest.mark.parametrize(
    ("script", "ending", "expected"),
    [
        ("hh", "marker", "NoIssuesFound"),
        ("uu", "marker", "NoIssuesFound"),
        ("hh", "silence", "Stopped"),
        ("nn", "marker", "NotApplicable"),
        ("nn", "silence", "NotApplicable"),
        ("hv", "marker", "IssuesFound"),
        ("hx", "marker", "Error"),
    ],
)
def test_what_a_rule_comes_to(script: str, ending: Any, expected: str) -> None:
    rules = [watched(script)]
    checkpoint = finish(run(rules, map(step, range(2))), rules, ending)
    assert checkpoint.rules["Script"].status.value == expected
    assert checkpoint.ended == ending


@pytest.mark.parametrize(
    ("tensors", "details"),
    [
        ({"all": ()}, "not captured: any tensor"),
        ({"all": (TENSOR,)}, "nothing; it reads any tensor"),
    ],
)
def test_not_applicable_says_what_was_looked_for(tensors: Any, details: str) -> None:
    rules = [watched("n")]
    checkpoint = finish(run(rules, [replace(step(0), tensors=tensors)]), rules, "marker")
    assert checkpoint.rules["Script"].details == details


def test_a_tick_is_judged_whatever_the_options_are() -> None:
    rule = watched("hh", start_step=100)
    tick = Step(1, Mode.TRAIN, 1, 5000.0, tick=True)
    checkpoint = run([rule], [step(0), step(1), tick])
    assert [change.status_details for change in checkpoint.outbox] == ["tick"]


def test_ids_are_the_same_every_time_and_differ_between_changes() -> None:
    def ids(script: str) -> list[str]:
        changes = run([watched(script, resolve=1)], map(step, range(len(script)))).outbox
        return [change.dedup_id for change in changes]

    assert ids("vhv") == ids("vhv")
    assert len(set(ids("vhv"))) == 3


def test_a_changed_configuration_starts_again_and_an_unchanged_one_goes_on() -> None:
    checkpoint = run([watched("hv", "a"), watched("hv", "b")], map(step, range(2)))
    again = configure(checkpoint, [watched("hv", "a"), watched("hvh", "b")], ())
    assert again.rules["a"] == checkpoint.rules["a"]
    assert again.rules["b"].status is RuleStatus.IN_PROGRESS
    assert again.rules["b"].data_points == 0


@given(
    scripts=st.lists(st.text("vhunxb", max_size=12), min_size=1, max_size=3),
    cuts=st.sets(st.integers(0, 12)),
    options=st.fixed_dictionaries(
        {},
        optional={
            "for_steps": st.integers(1, 3),
            "resolve": st.integers(1, 3),
            "every": st.integers(1, 3),
            "start_step": st.integers(0, 4),
            "grace_steps": st.integers(0, 4),
        },
    ),
)
def test_in_one_go_equals_step_by_step_with_the_checkpoint_stored_between(
    scripts: list[str], cuts: set[int], options: dict[str, Any]
) -> None:
    rules = [watched(script, f"r{at}", **options) for at, script in enumerate(scripts)]
    whole = run(rules, map(step, range(13)))
    parts = configure(Checkpoint("s3://b/j", first_step=0, first_time=1000.0), rules, ())
    for number in range(13):
        parts = fold(parts, rules, {rule.name: step(number) for rule in rules})
        if number in cuts:
            parts = configure(decode_checkpoint(encode_checkpoint(parts)), rules, ())
    assert parts == whole


@dataclass(frozen=True)
class Counting(Rule):
    """Counts in its detail how often it is evaluated, and needs one of its reads."""

    advice: ClassVar[str] = ""
    seen: ClassVar[list[int]] = []

    def reads(self) -> Reads:
        return Reads({"beside": Read(), "needed": Read()}, needs=("needed",))

    def evaluate(self, state: State, step: Step) -> tuple[State, Any]:
        self.seen.append(step.step)
        return state, HEALTHY if step.tensors["needed"] else not_applicable(Reason.NO_TENSOR, "")


def test_a_rule_is_left_alone_until_what_it_needs_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "is_custom", False)
    rule = Counting()
    asked = Watched(
        "Counting", "Counting", rule, rule.reads(), Options(), Severity.INFO, (),
        dry_run=False, fingerprint="",
    )  # fmt: skip
    found = [(TENSOR,) if at >= 3 else () for at in range(6)]
    steps = [
        replace(step(at), tensors={"beside": (TENSOR,), "needed": needed})
        for at, needed in enumerate(found)
    ]
    checkpoint = run([asked], steps)
    assert rule.seen == [0, 3, 4, 5]
    assert checkpoint.rules["Counting"].data_points == 3
