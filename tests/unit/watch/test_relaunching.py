from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tocsin.events import RelaunchPolicy
from tocsin.parsing import changed
from tocsin.watch import (
    Relaunch,
    alert_faults,
    encode_watch,
    faults,
    parse_watch,
    read_watch,
    resolve,
    to_watch,
)
from tocsin.watch.parts import to_parts

SECTION = {"attempts": 3, "hyperparameters": {"lr": "x0.3", "warmup": 200, "clip": 0.5}}


def relaunching(**content: Any) -> RelaunchPolicy | None:
    (rule,), _ = resolve(to_watch({"rules": ["AllZero"], **content}))
    return rule.relaunching


def test_a_rule_with_the_action_carries_the_section() -> None:
    asked = {"actions": ["stop", "relaunch"], "relaunch": SECTION}
    changes = {"lr": "x0.3", "warmup": "200", "clip": "0.5"}
    assert relaunching(**asked) == RelaunchPolicy(3, changes)
    assert relaunching(actions=["stop", "relaunch"]) == RelaunchPolicy(2, {})
    assert relaunching(actions=["stop"], relaunch=SECTION) is None


def test_the_section_is_kept_in_a_run() -> None:
    watch = to_watch({"rules": ["AllZero"], "relaunch": SECTION})
    assert parse_watch(encode_watch(watch)) == watch


def test_the_example_asks_for_what_its_page_says() -> None:
    example = read_watch(Path(__file__).parents[3] / "examples" / "relaunch" / "watch.yaml")
    assert not list(faults(example))
    (rule,), _ = resolve(example)
    assert rule.relaunching == RelaunchPolicy(1, {"learning-rate": "x0.1"})


@pytest.mark.parametrize(
    "change", ["x0.3", "x.3", "x10", "x1e-1", "0.001", "1e-3", "-1", "5", "0", "x2."]
)
def test_a_change(change: str) -> None:
    watch = to_watch({"relaunch": {"hyperparameters": {"lr": change}}})
    assert not list(alert_faults(watch))


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("lr", "0.3x", "'0.3x' is not a change: write a factor such as x0.3, or a number"),
        ("lr", "x0", "'x0' is not a change"),
        ("lr", "x-1", "'x-1' is not a change"),
        ("lr", "x", "'x' is not a change"),
        ("lr", "nan", "'nan' is not a change"),
        ("lr", "1e999", "'1e999' is not a change"),
        ("lr", "", "'' is not a change"),
        ("model", "s3://elsewhere/model.pkl", "is not a change"),
        ("sagemaker_submit_directory", "1", "is SageMaker's own, and may name code"),
    ],
)
def test_a_wrong_change_is_told_and_nothing_is_relaunched(name: str, change: str, why: str) -> None:
    section = {"hyperparameters": {name: change}}
    watch = to_watch({"relaunch": section})
    (fault,) = alert_faults(watch)
    assert fault.place == f"relaunch.hyperparameters.{name}"
    assert why in fault.text
    assert fault.mild
    assert relaunching(actions=["stop", "relaunch"], relaunch=section) is None


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"attempts": 0}, "relaunch.attempts: expected a whole number >= 1"),
        ({"attempts": 10}, "relaunch.attempts: expected a whole number <= 9"),
        ({"tries": 1}, "relaunch.tries: unknown key 'tries'"),
        ({"hyperparameters": {"lr": [1]}}, "relaunch.hyperparameters: expected a number or a text"),
        ("twice", "relaunch: expected a mapping, got a text"),
    ],
)
def test_a_part_that_cannot_be_used(section: Any, told: str) -> None:
    watch, (fault,) = to_parts({"relaunch": section})
    assert str(fault).startswith(told)
    assert watch.relaunch == Relaunch()


@pytest.mark.parametrize("where", ["file", "rule"])
def test_a_relaunch_needs_a_stop(where: str) -> None:
    alone = {"actions": ["relaunch", "email"]}
    rule = {"rule": "AllZero", **(alone if where == "rule" else {})}
    watch = to_watch({"rules": [rule], **(alone if where == "file" else {})})
    (fault,) = alert_faults(watch)
    assert fault.text == "relaunch starts a job again that was stopped: write [stop, relaunch]"


@pytest.mark.parametrize(
    ("value", "change", "after"),
    [
        ("0.1", "x0.3", "0.03"),
        ("1e-3", "x0.1", "0.0001"),
        ("64", "x0.5", "32"),
        ("33", "x0.5", "16.5"),
        ("1", "X0.3", "0.3"),
        ("0", "x2", "0"),
        ("0.1", "0.02", "0.02"),
        ("7", "-1", "-1"),
        ("1e-300", "x1e-100", None),
        ("1e300", "x1e100", None),
        ("inf", "x2", None),
        ("nan", "5", None),
        ("adam", "x2", None),
        ('"0.1"', "x2", None),
        ("", "x2", None),
    ],
)
def test_arithmetic(value: str, change: str, after: str | None) -> None:
    assert changed(value, change.lower()) == after
