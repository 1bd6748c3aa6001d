from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
from tocsin.model import Mode, Severity, Verdict
from tocsin.rules import (
    HEALTHY,
    Reads,
    Rule,
    State,
    Step,
    _registry,
    get_rule,
    register,
    rule_names,
)
from tocsin.watch import Options, Refused, RuleConfig, Watch, Watched, resolve, to_watch


@dataclass(frozen=True)
class Sample(Rule):
    """A rule that sets engine options of its own."""

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3, "grace": "10s"}
    sagemaker: ClassVar[Mapping[str, Any]] = {"every": 7, "limit": 9}

    limit: int = 1
    fails: bool = False

    def reads(self) -> Reads:
        if self.fails:
            raise KeyError("of somebody's\nown making")
        return Reads({})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return state, HEALTHY


@pytest.fixture(autouse=True)
def _registry_with_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    register(Sample)


def watched(rule: Any, **watch: Any) -> Watched:
    good, bad = resolve(to_watch({"rules": [rule], **watch}))
    assert not bad, bad
    return good[0]


def refused(rule: Any, **watch: Any) -> Refused:
    good, bad = resolve(to_watch({"rules": [rule], **watch}))
    assert not good
    return bad[0]


def sample(**parameters: Any) -> dict[str, Any]:
    return {"rule": "Sample", "parameters": parameters}


@pytest.mark.parametrize(
    ("profile", "rule", "expected"),
    [
        ("recommended", "ExplodingTensor", Options()),
        ("sagemaker", "ExplodingTensor", Options()),
        ("recommended", "Sample", Options(for_steps=3, grace_seconds=10.0)),
        ("sagemaker", "Sample", Options(every=7)),
        ("sagemaker", sample(every="2"), Options(every=2)),
        ("sagemaker", {**sample(every="2"), "every": 3}, Options(every=3)),
        ("recommended", {**sample(), "for_steps": 1}, Options(grace_seconds=10.0)),
        (
            "recommended",
            sample(for_steps="1", grace="0"),
            Options(),
        ),
        (
            "recommended",
            {**sample(grace="1h", start_step="5"), "grace": 4},
            Options(for_steps=3, grace_steps=4, start_step=5),
        ),
        (
            "sagemaker",
            sample(start_step="17", end_step="19", resolve="2", mode="EVAL", for_steps="4"),
            Options(4, 17, 19, 7, resolve=2, mode=Mode.EVAL),
        ),
        (
            "sagemaker",
            sample(
                start_step="None", end_step="None", resolve=None, mode="None", grace=None, every=""
            ),
            Options(),
        ),
        ("sagemaker", {**sample(mode="EVAL"), "mode": "GLOBAL"}, Options(every=7)),
        (
            "sagemaker",
            {**sample(), "include": "a", "exclude": ["b", "c"]},
            Options(every=7, include=("a",), exclude=("b", "c")),
        ),
    ],
)
def test_file_before_parameters_before_profile(profile: str, rule: Any, expected: Options) -> None:
    assert watched(rule, profile=profile).options == expected


@pytest.mark.parametrize(
    ("grace", "steps", "seconds"),
    [
        (0, 0, 0.0),
        (5, 5, 0.0),
        ("5", 5, 0.0),
        ("30s", 0, 30.0),
        ("1.5m", 0, 90.0),
        ("0s", 0, 0.0),
    ],
)
def test_grace(grace: int | str, steps: int, seconds: float) -> None:
    for rule in ({**sample(), "grace": grace}, sample(grace=grace)):
        options = watched(rule).options
        assert (options.grace_steps, options.grace_seconds) == (steps, seconds)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"rule": "Sampl"}, "unknown rule 'Sampl': did you mean Sample?"),
        (sample(limits=1), "Sample: unknown parameter 'limits': did you mean limit?"),
        (sample(limit="many"), "Sample: parameter limit: expected a whole number, got a text"),
        (
            {**sample(), "for_steps": 0},
            "Sample: for_steps is 0, but must be a whole number from 1 on",
        ),
        (
            {**sample(), "start_step": -1},
            "Sample: start_step is -1, but must be a whole number from 0 on",
        ),
        (
            {**sample(), "end_step": 0},
            "Sample: end_step is 0, but must be a whole number from 1 on",
        ),
        (sample(every="often"), "Sample: every is 'often', but must be a whole number from 1 on"),
        (sample(every=[1]), "Sample: every is [1], but must be a whole number from 1 on"),
        (sample(resolve=True), "Sample: resolve is True, but must be a whole number from 1 on"),
        (sample(resolve=0.5), "Sample: resolve is 0.5, but must be a whole number from 1 on"),
        (
            {**sample(), "grace": "5 s"},
            "Sample: grace is '5 s', but must be a whole number from 0 on, or a time like 30s, 2m",
        ),
        ({**sample(), "grace": "²"}, "Sample: grace is '²', but must be"),
        (sample(grace=-1), "Sample: grace is -1, but must be"),
        (sample(grace=["1s"]), "Sample: grace is ['1s'], but must be"),
        (
            sample(mode="eval"),
            "Sample: mode is 'eval', but must be one of TRAIN, EVAL, PREDICT, GLOBAL",
        ),
        (sample(mode=["EVAL"]), "Sample: mode is ['EVAL'], but must be one of"),
        ({**sample(), "include": "("}, "Sample: include: pattern '(' is not a regular expression"),
        (
            {**sample(), "exclude": ["a", "*"]},
            "Sample: exclude: pattern '*' is not a regular expression",
        ),
        (
            {"rule": "ExplodingTensor", "parameters": {"tensor_regex": "["}},
            "ExplodingTensor: tensor_regex: pattern '[' is not a",
        ),
        (
            {"rule": "ExplodingTensor", "parameters": {"tensor_regex": "a" * 1001}},
            "ExplodingTensor: tensor_regex: pattern has 1001 characters",
        ),
        (
            {"rule": "BrokenContract", "exclude": ["loss", "contract/softmx_twice/"]},
            "BrokenContract: exclude: no contract is called 'softmx_twice': did you mean softmax_",
        ),
        (
            {"rule": "BrokenContract", "include": "contract/qqqq"},
            "BrokenContract: include: no contract is called 'qqqq': docs/contracts.md lists them",
        ),
        (sample(fails=True), 'Sample: KeyError: "of somebody\'s\\nown making"'),
    ],
)
def test_refused_with_a_reason_and_alone(rule: dict[str, Any], reason: str) -> None:
    good, bad = resolve(to_watch({"rules": ["ExplodingTensor", {**rule, "name": "x"}, "Sample"]}))
    assert [each.name for each in good] == ["ExplodingTensor", "Sample"]
    assert [(each.name, each.rule_name) for each in bad] == [("x", rule["rule"])]
    assert bad[0].reason.startswith(reason)
    assert len(bad[0].reason.splitlines()) == 1


@pytest.mark.parametrize(
    "rule",
    [
        sample(limit="9" * 100_000),
        sample(every="9" * 100_000),
        sample(**{"k" * 100_000: 1}),
        {**sample(), "include": "(" * 900},
        {**sample(), "grace": "s" * 100_000},
    ],
)
def test_reasons_are_short_enough_for_an_event(rule: dict[str, Any]) -> None:
    assert len(refused(rule).reason) <= 1024


@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
def test_without_rules_those_of_the_profile_watch(
    profile: Literal["recommended", "sagemaker"],
) -> None:
    good, bad = resolve(Watch(profile=profile))
    assert tuple(each.name for each in good) == rule_names(profile)
    assert bad == ()
    assert resolve(Watch(rules=())) == ((), ())


def test_severity_actions_and_dry_run() -> None:
    rules = [
        "ExplodingTensor",
        {"rule": "VanishingGradient", "severity": "critical", "actions": ["stop"]},
        {"rule": "Sample", "name": "quiet", "actions": []},
    ]
    content = {"rules": rules, "severity": "info", "actions": ["email"], "dry_run": True}
    good, _ = resolve(to_watch(content))
    assert [(each.name, each.rule_name, each.severity, each.actions) for each in good] == [
        ("ExplodingTensor", "ExplodingTensor", Severity.INFO, ("email",)),
        ("VanishingGradient", "VanishingGradient", Severity.CRITICAL, ("stop",)),
        ("quiet", "Sample", Severity.INFO, ()),
    ]
    assert all(each.dry_run for each in good)


@pytest.mark.parametrize(
    ("file", "entry", "verdict", "expected"),
    [
        ({}, {}, None, (Severity.INFO, ())),
        ({}, {}, Severity.CRITICAL, (Severity.CRITICAL, ("email", "metric"))),
        ({}, {"actions": ["sms"]}, None, (Severity.INFO, ("sms",))),
        ({}, {"severity": "warning"}, Severity.CRITICAL, (Severity.WARNING, ("email", "metric"))),
        ({"severity": "warning"}, {}, Severity.CRITICAL, (Severity.WARNING, ("email", "metric"))),
        ({"severity": "info"}, {}, None, (Severity.INFO, ("email", "metric"))),
        ({"profile": "sagemaker"}, {}, None, (Severity.WARNING, ("email", "metric"))),
    ],
)
def test_the_entry_goes_before_the_file_and_that_before_the_rule(
    file: dict[str, Any],
    entry: dict[str, Any],
    verdict: Severity | None,
    expected: tuple[Severity, tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(get_rule("VanishingGradient"), "severity", Severity.INFO)
    watch = to_watch({**file, "rules": [{"rule": "VanishingGradient", **entry}]})
    ((found,), ()) = resolve(watch)
    severity = found.severity_of(verdict)
    assert (severity, found.actions_at(severity)) == expected


def test_defaults_of_a_watch() -> None:
    found = watched("VanishingGradient")
    assert (found.severity, found.actions, found.dry_run) == (
        Severity.WARNING,
        ("email", "metric"),
        False,
    )


def test_parameters_that_say_something() -> None:
    found = watched({"rule": "VanishingGradient", "parameters": {"tensor_regex": "w"}})
    assert found.parameters == {"share": 1e-6, "tensor_regex": ("w",)}
    found = watched("LossNotDecreasing", profile="sagemaker")
    assert "settled_percent" not in found.parameters
    assert found.parameters["num_steps"] == 10


def test_a_rules_reads_are_those_of_its_parameters() -> None:
    found = watched({"rule": "VanishingGradient", "parameters": {"tensor_regex": "^g"}})
    assert found.reads.tensors["gradients"].regex == ("^g",)


JUDGES = {"rule": "VanishingGradient", "name": "v", "parameters": {"threshold": 1e-6}}


@pytest.mark.parametrize(
    ("rule", "watch"),
    [
        (JUDGES, {}),
        (JUDGES, {"severity": "critical", "actions": ["stop"], "dry_run": True}),
        (JUDGES, {"capture": {"save_interval": 5}, "notify": {"group_wait": "1s"}}),
        ({**JUDGES, "severity": "info"}, {}),
        ({**JUDGES, "actions": ["stop"], "inhibits": ["Overfit"]}, {}),
        ({**JUDGES, "parameters": {"threshold": "1e-6"}}, {}),
        ({**JUDGES, "for_steps": 3}, {}),
        ({**JUDGES, "mode": "GLOBAL", "grace": "0s"}, {}),
    ],
)
def test_the_fingerprint_stays_while_judging_is_the_same(
    rule: dict[str, Any], watch: dict[str, Any]
) -> None:
    assert watched(rule, **watch).fingerprint == watched(JUDGES).fingerprint


def test_the_fingerprint_changes_with_what_is_judged() -> None:
    others = [
        {**JUDGES, "rule": "ExplodingTensor", "parameters": {}},
        {**JUDGES, "parameters": {}},
        {**JUDGES, "parameters": {"threshold": 1e-6, "tensor_regex": "w"}},
        {**JUDGES, "for_steps": 2},
        {**JUDGES, "start_step": 1},
        {**JUDGES, "end_step": 1},
        {**JUDGES, "every": 2},
        {**JUDGES, "grace": 1},
        {**JUDGES, "grace": "1s"},
        {**JUDGES, "resolve": 1},
        {**JUDGES, "mode": "TRAIN"},
        {**JUDGES, "include": "w"},
        {**JUDGES, "exclude": "w"},
    ]
    prints = [watched(rule).fingerprint for rule in [JUDGES, *others]]
    prints.append(watched(JUDGES, profile="sagemaker").fingerprint)
    prints.append(refused({**JUDGES, "parameters": {"threshold": 0}}).fingerprint)
    assert len(set(prints)) == len(prints)


def test_a_rule_that_is_installed_later_is_no_more_the_refused_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(rules=(RuleConfig("Sample"),))
    (good,), _ = resolve(watch)
    monkeypatch.delitem(_registry._rules, "Sample")
    _, (bad,) = resolve(watch)
    assert bad.fingerprint != good.fingerprint
