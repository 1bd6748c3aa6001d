"""``tocsin lint``."""

from __future__ import annotations

import json

import pytest
from tocsin.rules import _registry, rule_names

WRONG = """
actions: [email, "stop:now"]
rules:
  - VanishingGradiant
  - rule: LossNotDecreasing
    parameters: {num_step: 50, bogus: 3}
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
        "2: actions[1]: 'stop:now': stop takes no argument",
        "4: rules[0].rule: unknown rule 'VanishingGradiant': did you mean VanishingGradient?",
        "6: rules[1].parameters.num_step: LossNotDecreasing: unknown parameter 'num_step': did",
        "6: rules[1].parameters.bogus: LossNotDecreasing: unknown parameter 'bogus'",
        "7: notify.group_wait: 'soon'",
    ]
    lines = said.err.splitlines()
    assert len(lines) == len(wanted)
    for line, problem in zip(lines, wanted, strict=True):
        assert line.startswith(f"tocsin: {path}:{problem}")
    as_json = tocsin("lint", path, "--json")
    assert as_json.code == 2
    assert list(as_json.json) == ["file", "rules", "problems", "lines"]
    numbered = zip(as_json.json["lines"], as_json.json["problems"], strict=True)
    assert [f"tocsin: {path}:{line}: {problem}" for line, problem in numbered] == lines


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("rules: [", "not YAML"),
        ("severity: hihg", "invalid enum value 'hihg': known are critical, info, warning"),
        ("rules: [AllZero]\nseverity: info\nrules: [AllZero]", "key 'rules' appears twice"),
    ],
)
def test_files_that_are_no_configuration(tocsin, tmp_path, content, problem):
    path = _file(tmp_path, content)
    line = content.count("\n") + 1
    complaint = tocsin("lint", path).complaint
    assert complaint.startswith(f"{path}:{line}: ")
    assert problem in complaint
    assert tocsin("lint", path, "--json").json["problems"] == [
        complaint.removeprefix(f"{path}:{line}: ")
    ]


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file(tocsin, tmp_path, content):
    complaint = tocsin("lint", _file(tmp_path, content)).complaint
    assert "is empty: name rules under `rules:`" in complaint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", f"{len(rule_names('recommended'))} rules, no problem"),
        ("rules: [VanishingGradient]", "1 rule, no problem"),
        ("rules: [{rule: VanishingGradient, inhibits: [ExplodingTensor]}, ExplodingTensor]", "2"),
    ],
)
def test_nothing_wrong(tocsin, tmp_path, content, said):
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
        (CUSTOM.replace("limit", "limt"), "rules[1].parameters.limt: Mine: unknown"),
        (CUSTOM.replace("[Mine", "[ExplodingTenso"), "rules[0].rule: unknown rule 'Explod"),
        ("{custom_rules: other, rules: []}", "custom_rules: "),
    ],
)
def test_custom_rules_excuse_nothing(tocsin, tmp_path, rules, content, problem):
    assert problem in tocsin("lint", _file(tmp_path, content)).complaint


def test_a_custom_rule_that_fails_is_a_problem_of_the_file(tocsin, tmp_path, rules):
    (rules / "bad.py").write_text("1/0")
    file = _file(tmp_path, "{custom_rules: mine, rules: []}")
    complaint = tocsin("lint", file).complaint
    assert complaint.startswith(
        f"{file}:1: custom_rules: {rules / 'bad.py'}: line 1: ZeroDivisionError: "
    )
    assert tocsin("lint", file, "--rules", rules).complaint.startswith(
        f"{rules / 'bad.py'}: line 1: Z"
    )


NOTIFYING = """
actions:
  - email:a@example.com
  - email:b@Example.org
  - sms:+15551230000
  - webhook:ops
  - email
"""
PEOPLE = ("*@example.org", "a@example.com", "+15551230000")


@pytest.mark.parametrize(
    ("allow", "lines"),
    [
        ((), []),
        (("a@example.com",), [4, 5, 6]),
        (("*@example.org", "+15551230000"), [3, 6]),
        ((*PEOPLE, "webhook:dev"), [6]),
        ((*PEOPLE, "webhook:ops"), []),
    ],
)
def test_recipients_on_the_command_line(tocsin, tmp_path, monkeypatch, allow, lines):
    monkeypatch.chdir(tmp_path)
    options = [word for item in allow for word in ("--allow", item)]
    answer = tocsin("lint", _file(tmp_path, NOTIFYING), *options, "--json")
    assert answer.json["lines"] == lines
    assert answer.code == (2 if lines else 0)


@pytest.mark.parametrize(
    ("context", "lines"),
    [
        ({}, []),
        ({"@aws-cdk/core:checkSecretUsage": True}, []),
        ({"emails": []}, [3, 4, 5, 6]),
        ({"emails": ["a@example.com"], "allowedRecipients": ["*@example.org"]}, [5, 6]),
        ({"phones": "+15551230000, +15551230001", "webhooks": '["dev", "ops"]'}, [3, 4]),
    ],
)
def test_recipients_of_the_deployment(tocsin, tmp_path, monkeypatch, context, lines):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cdk.json").write_text(json.dumps({"app": "x", "context": context}))
    assert tocsin("lint", _file(tmp_path, NOTIFYING), "--json").json["lines"] == lines
    assert tocsin("lint", _file(tmp_path, NOTIFYING), "--allow", "none", "--json").json[
        "lines"
    ] == [
        *(3, 4, 5, 6)  # what is said goes before what lies around
    ]


def test_a_deployment_that_cannot_be_read(tocsin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cdk.json").write_text("{")
    assert tocsin("lint", _file(tmp_path, NOTIFYING)).complaint.startswith("cdk.json: not JSON: ")
    assert tocsin("lint", _file(tmp_path, NOTIFYING), "--allow", "*@example.com").code == 2


def test_how_to_fix_it(tocsin, tmp_path):
    path = _file(tmp_path, '{actions: ["email:a@example.com"]}')
    assert tocsin("lint", path, "--allow", "*@example.org").complaint == (
        f"{path}:1: actions[0]: 'a@example.com' is not on the deployment's list of recipients: "
        "add it, or *@example.com, to the option allowedRecipients"
    )
    path = _file(tmp_path, '{actions: ["email:a..b@example.com"]}')
    assert "two periods in a row (write it like" in tocsin("lint", path).complaint
