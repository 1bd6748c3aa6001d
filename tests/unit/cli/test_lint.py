"""``tocsin lint``."""

from __future__ import annotations

import json

import pytest
from tocsin.rules import _registry

WRONG = """
actions: [email, "stop:now"]
rules:
  - VanishingGradiant
  - rule: LossNotDecreasing
    name: stalled
    parameters: {num_step: 50, bogus: 3, diff_percent: 200}
    actions: [emial, "email:nobody", "sms:12", metric]
    inhibits: [Overfit, stalled, ExplodingTensor]
  - rule: ExplodingTensor
    for_steps: 0
capture: {collections: {w: {include_regex: ["^w", "("]}}}
notify: {group_wait: soon}
"""


def _file(tmp_path, content):
    path = tmp_path / "watch.yaml"
    path.write_text(content)
    return path


def test_every_problem_is_told(tocsin, tmp_path):
    path = _file(tmp_path, WRONG)
    said = tocsin("lint", path)
    assert (said.code, said.out) == (2, "")
    wanted = [
        "actions: 'stop:now': stop takes no argument",
        "rules[0]: unknown rule 'VanishingGradiant': did you mean VanishingGradient?",
        "rules[1]: LossNotDecreasing: unknown parameter 'num_step': did you mean num_steps?",
        "rules[1]: LossNotDecreasing: unknown parameter 'bogus'",
        "rules[1]: LossNotDecreasing: diff_percent is 200.0",
        "rules[1].actions: unknown action 'emial'",
        "rules[1].actions: 'email:nobody': 'nobody' is not an address",
        "rules[1].actions: 'sms:12': '12' is not a phone number",
        "rules[1].inhibits: no rule of this file is named 'Overfit'",
        "rules[1].inhibits: a rule cannot inhibit itself",
        "rules[2]: ExplodingTensor: for_steps is 0",
        "capture.collections['w'].include_regex: pattern '(' is not a regular expression",
        "notify.group_wait: 'soon' is not a time like 10s, 5m, 4h",
    ]
    lines = said.err.splitlines()
    assert len(lines) == len(wanted)
    for line, problem in zip(lines, wanted, strict=True):
        assert line.startswith(f"tocsin: {path}: {problem}")
    as_json = tocsin("lint", path, "--json")
    assert as_json.code == 2
    assert list(as_json.json) == ["file", "rules", "problems"]
    assert [f"tocsin: {path}: {problem}" for problem in as_json.json["problems"]] == lines


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("rules: [", "not YAML"),
        ("7", "expected a mapping with `rules`, got int"),
        ("rule: x", "unknown key 'rule'"),
        ("rules: [{rule: ExplodingTensor}, ExplodingTensor]", "stands 2 times"),
        ("profile: mine", "nvalid enum value 'mine' - at `profile`"),
    ],
)
def test_files_that_are_no_configuration(tocsin, tmp_path, content, problem):
    path = _file(tmp_path, content)
    complaint = tocsin("lint", path).complaint
    assert complaint.startswith(f"{path}: ")
    assert problem in complaint
    assert tocsin("lint", path, "--json").json["problems"] == [complaint.removeprefix(f"{path}: ")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "3 rules, no problem"),
        ("rules: [VanishingGradient]", "1 rule, no problem"),
        ("rules: [{rule: VanishingGradient, inhibits: [ExplodingTensor]}, ExplodingTensor]", "2"),
    ],
)
def test_nothing_wrong(tocsin, tmp_path, content, said, monkeypatch):
    monkeypatch.setattr("tocsin.cli._lint.rule_names", lambda profile: ("A", "B", "C"))
    path = _file(tmp_path, content)
    answer = tocsin("lint", path)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"{path}: {said}")
    assert tocsin("lint", path, "--json").json["problems"] == []


RULE = """
from smdebug.rules import Rule

class Mine(Rule):
    def __init__(self, base_trial, limit=1):
        super().__init__(base_trial)

    def invoke_at_step(self, step):
        return False
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """A folder of rules beside the watch file."""
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rule.py").write_text(RULE)
    return tmp_path / "mine"


CUSTOM = "{custom_rules: mine, rules: [Mine, {rule: Mine, name: b, parameters: {limit: 2}}]}"


def test_custom_rules_are_known(tocsin, tmp_path, rules):
    answer = tocsin("lint", _file(tmp_path, CUSTOM))
    assert (answer.code, answer.err) == (0, "")
    assert "2 rules, no problem" in answer.out


@pytest.mark.parametrize("path", ["", "rule.py"])
def test_rules_can_be_given(tocsin, tmp_path, rules, path):
    file = _file(tmp_path, CUSTOM.replace("custom_rules: mine, ", ""))
    assert "unknown rule 'Mine'" in tocsin("lint", file).err
    assert tocsin("lint", file, "--rules", rules / path).code == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (CUSTOM.replace("limit", "limt"), "rules[1]: Mine: unknown parameter 'limt'"),
        (CUSTOM.replace("[Mine", "[ExplodingTenso"), "rules[0]: unknown rule 'ExplodingTenso'"),
        ("{custom_rules: other, rules: []}", "custom_rules: "),
    ],
)
def test_custom_rules_excuse_nothing(tocsin, tmp_path, rules, content, problem):
    assert problem in tocsin("lint", _file(tmp_path, content)).complaint


def test_a_custom_rule_that_fails_is_a_problem_of_the_file(tocsin, tmp_path, rules):
    (rules / "bad.py").write_text("1/0")
    file = _file(tmp_path, "{custom_rules: mine, rules: []}")
    complaint = tocsin("lint", file).complaint
    assert complaint.startswith(f"{file}: custom_rules: {rules / 'bad.py'}: ZeroDivisionError: ")
    assert tocsin("lint", file, "--rules", rules).complaint.startswith(f"{rules / 'bad.py'}: Zero")


def test_amazons_form(tocsin, tmp_path):
    def rule(name, actions):
        parameters = {"rule_to_invoke": "VanishingGradient", "action_json": json.dumps(actions)}
        return {"RuleConfigurationName": name, "RuleParameters": parameters}

    stop, sms = {"name": "stoptraining"}, {"name": "sms", "endpoint": "555"}
    path = tmp_path / "rules.json"
    path.write_text(json.dumps([rule("a", [stop]), rule("b", [stop, sms])]))
    complaint = tocsin("lint", path).complaint
    assert "rules[1].actions: 'sms:555': '555' is not a phone number" in complaint
