"""Which rules have judged nothing, and why; and what else a rule's record remembers."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from tocsin.evaluation import (
    Checkpoint,
    configure,
    decode_checkpoint,
    document,
    encode_checkpoint,
    finish,
    fold,
)
from tocsin.model import Mode, Reason, Role, RuleStatus, Severity, Verdict
from tocsin.rules import HEALTHY, UNDECIDED, Read, Reads, Rule, State, Step, not_applicable
from tocsin.watch import Options, Refused, Watched

from .test_fold import TENSOR, run, step, watched

LOSS, METRIC, WEIGHT = Role.LOSS, Role.METRIC, Role.WEIGHT


@dataclass(frozen=True)
class Needy(Rule):
    """Judges when all that it reads is there, after ``patience`` steps."""

    tensors: Mapping[str, Read] = field(default_factory=dict)
    patience: int = 0
    peers: bool = False

    def reads(self) -> Reads:
        return Reads(self.tensors, peers=self.peers)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not all(step.tensors.values()):
            return state, not_applicable(Reason.NO_TENSOR, "missing")
        seen = state.get("seen", 0) + 1
        return {"seen": seen}, HEALTHY if seen > self.patience else UNDECIDED


def needy(
    roles: Mapping[str, Any], *, patience: int = 0, peers: bool = False, **options: Any
) -> Watched:
    reads = {
        name: read if isinstance(read, Read) else Read(roles=read) for name, read in roles.items()
    }
    rule = Needy(reads, patience, peers)
    return Watched(
        "Needy", "Needy", rule, rule.reads(), Options(**options), Severity.INFO, (),
        dry_run=False, fingerprint="f",
    )  # fmt: skip


def judged(rule: Watched, steps: Iterable[str], end: bool = True) -> tuple[str, str, str]:
    """The list that the rule is in, its status and details, after steps that have tensors for the
    reads of these names."""
    checkpoint = configure(Checkpoint("s3://b/j"), [rule], ())
    for number, found in enumerate(steps):
        tensors = {name: (TENSOR,) * (name in found.split()) for name in rule.reads.tensors}
        one = replace(step(number), tensors=tensors)
        checkpoint = decode_checkpoint(encode_checkpoint(checkpoint))
        checkpoint = fold(
            msgspec.structs.replace(checkpoint, last_step=number), [rule], {"Needy": one}
        )
    if end:
        checkpoint = finish(checkpoint, [rule], "marker")
    lists = document(checkpoint)["not_judged"]
    assert list(lists) == ["no_loss", "too_few_steps", "not_captured"]
    found = " ".join(reason for reason, names in lists.items() if names)
    record = checkpoint.rules["Needy"]
    return found, record.status.value, record.details


FEW = ("too_few_steps", "NoIssuesFound", "too few steps to judge")


@pytest.mark.parametrize(
    ("rule", "steps", "expected"),
    [
        (needy({"l": (LOSS,)}), ["", ""],
         ("no_loss", "NotApplicable", "not captured: role loss")),
        (needy({"l": (LOSS, METRIC)}), [""], ("no_loss", "NotApplicable",
                                             "not captured: role loss or role metric")),
        (needy({"l": (LOSS,), "w": (WEIGHT,)}), ["w", "w"],
         ("no_loss", "NotApplicable", "missing; not captured: role loss")),
        (needy({"l": (LOSS,), "w": (WEIGHT,)}), ["", "w"],
         ("no_loss", "NotApplicable", "missing; not captured: role loss")),
        (needy({"l": (LOSS,), "w": (WEIGHT,)}), ["l"],
         ("not_captured", "NotApplicable", "missing; not captured: role weight")),
        (needy({"l": (LOSS,), "w": (WEIGHT,)}), [""],
         ("not_captured", "NotApplicable", "not captured: role loss, role weight")),
        # both were there, and never together
        (needy({"l": (LOSS,), "w": (WEIGHT,)}), ["l", "w"],
         ("not_captured", "NotApplicable", "missing; it reads role loss, role weight")),
        (needy({"m": (METRIC,)}), [""],
         ("not_captured", "NotApplicable", "not captured: role metric")),
        (needy({"any": ()}), [""], ("not_captured", "NotApplicable", "not captured: any tensor")),
        (needy({}), [""], ("", "NoIssuesFound", "")),
        # a loss of whatever name or kind would not do
        (needy({"l": Read(regex=("^x",))}), [""],
         ("not_captured", "NotApplicable", "not captured: name matching '^x'")),
        (needy({"l": Read(roles=(LOSS,), kinds=("k",))}), [""],
         ("not_captured", "NotApplicable", "not captured: role loss of kind k")),
        (needy({"l": (LOSS,)}, include=("^x",)), [""],
         ("not_captured", "NotApplicable", "not captured: role loss")),
        (needy({"l": (LOSS,)}, exclude=("^x",)), [""],
         ("not_captured", "NotApplicable", "not captured: role loss")),
        (needy({"l": (LOSS,)}, peers=True), [""],
         ("not_captured", "NotApplicable", "not captured: role loss of at least two workers")),
        # too few steps
        (needy({"l": (LOSS,)}), [], FEW),
        (needy({"l": (LOSS,)}, patience=2), ["l", "l"], FEW),
        (needy({"l": (LOSS,)}, patience=2), ["l", "", "l"], FEW),
        (needy({"l": (LOSS,)}, start_step=9), ["l", "l"], FEW),
        (needy({"l": (LOSS,)}, mode=Mode.EVAL), ["l", "l"], FEW),
        (needy({"l": (LOSS,)}, mode=Mode.EVAL), ["", ""],
         ("no_loss", "NotApplicable", "not captured: role loss")),
        # judged
        (needy({"l": (LOSS,)}), ["", "l", ""], ("", "NoIssuesFound", "")),
        (needy({"l": (LOSS,)}, patience=2), ["l", "l", "l"], ("", "NoIssuesFound", "")),
    ],
)  # fmt: skip
def test_why_a_rule_has_judged_nothing(
    rule: Watched, steps: list[str], expected: tuple[str, str, str]
) -> None:
    assert judged(rule, steps) == expected


@pytest.mark.parametrize(
    ("rule", "steps", "expected"),
    [
        (needy({"l": (LOSS,)}), [], "too_few_steps"),
        (needy({"l": (LOSS,)}), [""], "no_loss"),
        (needy({"l": (LOSS,)}), ["", "l"], ""),
        (needy({"l": (LOSS,)}, patience=2), ["l"], "too_few_steps"),
        (needy({"w": (WEIGHT,)}), [""], "not_captured"),
    ],
)
def test_so_far(rule: Watched, steps: list[str], expected: str) -> None:
    found, status, _ = judged(rule, steps, end=False)
    assert (found, status) == (expected, "InProgress")


@pytest.mark.parametrize(("script", "expected"), [("x", ""), ("hx", ""), ("v", ""), ("ux", "")])
def test_rules_in_error_and_ones_that_fired_are_in_no_list(script: str, expected: str) -> None:
    rules = [watched(script)]
    checkpoint = finish(run(rules, map(step, range(len(script)))), rules, "marker")
    lists = document(checkpoint)["not_judged"]
    assert "".join(reason for reason, names in lists.items() if names) == expected


def test_a_tick_shows_nothing_of_what_is_captured() -> None:
    rule = needy({"l": (LOSS,)})
    before = configure(Checkpoint("s3://b/j"), [rule], ())
    tick = Step(1, Mode.TRAIN, 1, 5000.0, tick=True)
    assert fold(before, [rule], {"Needy": tick}).rules["Needy"].missing is None


def test_a_checkpoint_of_an_older_version() -> None:
    """It is read, and what it does not know is left open."""
    rules = [watched("nn", "n"), watched("v", "v"), watched("h", "h"), watched("uu", "u")]
    checkpoint = finish(run(rules, map(step, range(2))), rules, "marker")
    data = msgspec.json.decode(zlib.decompress(encode_checkpoint(checkpoint)))
    for record in data["rules"].values():
        for newer in ("severity", "missing", "fired_at"):
            del record[newer]
    old = document(decode_checkpoint(zlib.compress(msgspec.json.encode(data))))
    assert old["not_judged"] == {"no_loss": [], "too_few_steps": ["u"], "not_captured": ["n"]}
    found = {rule["RuleConfigurationName"]: rule for rule in old["rules"]}
    assert [found[name]["FiredAt"] for name in "nvhu"] == [None] * 4
    assert found["v"]["Severity"] is Severity.WARNING  # its last change has it


@pytest.mark.parametrize(
    ("script", "options", "first", "fired"),
    [
        ("hh", {}, None, None),
        ("hv", {}, 1, 1),
        ("hvvvv", {"for_steps": 3}, 1, 3),
        ("vhvv", {"for_steps": 2}, 2, 3),
        ("vvh", {"for_steps": 3}, None, None),
        ("vvhvv", {"for_steps": 2, "resolve": 1}, 0, 1),  # both of the first time
        ("vx", {}, 0, 0),
    ],
)
def test_where_a_rule_fired(
    script: str, options: dict[str, Any], first: int | None, fired: int | None
) -> None:
    (rule,) = document(run([watched(script, **options)], map(step, range(len(script)))))["rules"]
    steps = [found and found["step"] for found in (rule["FirstViolation"], rule["FiredAt"])]
    assert steps == [first, fired]
    if rule["FiredAt"]:
        assert list(rule["FiredAt"]) == list(rule["FirstViolation"])
        assert rule["FiredAt"]["evidence"] == {"n": fired}


def test_the_severity_is_the_present_one() -> None:
    rules = [watched("h", "a"), replace(watched("h", "b"), severity=Severity.CRITICAL)]
    bad = Refused("c", "Nobody", "unknown", "f")
    checkpoint = configure(Checkpoint("s3://b/j"), rules, [bad])

    def severities(of: Checkpoint) -> dict[str, Severity]:
        return {each["RuleConfigurationName"]: each["Severity"] for each in document(of)["rules"]}

    assert severities(checkpoint) == {"a": "warning", "b": "critical", "c": "warning"}
    after = configure(checkpoint, [replace(rules[0], severity=Severity.INFO), rules[1]], [bad])
    assert severities(after) == {"a": "info", "b": "critical", "c": "warning"}
    assert after.rules["a"].status is RuleStatus.IN_PROGRESS
