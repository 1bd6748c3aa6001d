"""Rules in files on the command line: of the watch file's folder, and of ``--rules``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tocsin.rules import _registry

RULE = """
from smdebug.rules import Rule

class TooHigh(Rule):
    \"\"\"The loss is too high.\"\"\"

    def __init__(self, base_trial, limit=1.0):
        super().__init__(base_trial)
        self.limit = float(limit)

    def invoke_at_step(self, step):
        return self.base_trial.tensor("loss").value(step) > self.limit
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "too_high.py").write_text(RULE)
    return tmp_path / "mine"


def fired(said):
    """Status and number of violations of the rule."""
    found = {rule["RuleConfigurationName"]: rule for rule in said.json["rules"]}
    return found["TooHigh"]["RuleEvaluationStatus"], found["TooHigh"]["Violations"]


@pytest.mark.parametrize(
    ("limit", "expected"), [("1.5", ("IssuesFound", 5)), ("3", ("NoIssuesFound", 0))]
)
def test_rules_of_a_path(tocsin, ill, rules, limit, expected):
    option = f"TooHigh:limit={limit}"
    said = tocsin("check", ill, "--rules", rules, "--rule", option, "--json")
    assert fired(said) == expected
    assert said.err == ""
    one = tocsin("check", ill, "--rules", rules / "too_high.py", "--rule", option, "--json")
    assert one.json == said.json


def test_rules_of_a_path_watch_beside_the_others(tocsin, ill, rules):
    names = {
        rule["Rule"] for rule in tocsin("check", ill, "--rules", rules, "--json").json["rules"]
    }
    assert {"TooHigh", "ExplodingTensor"} <= names


def test_custom_rules_of_the_watch_file(tocsin, ill, rules, monkeypatch):
    file = rules.parent / "watch.json"
    configured = {"rule": "TooHigh", "parameters": {"limit": "1.5"}, "for_steps": 2}
    file.write_text(json.dumps({"custom_rules": "mine/", "rules": [configured]}))
    monkeypatch.chdir("/")  # the folder is found from the file
    assert fired(tocsin("check", ill, "--watch", file, "--json")) == ("IssuesFound", 5)


def test_one_that_fails_is_told(tocsin, ill, rules):
    (rules / "bad.py").write_text("def f(:")
    file = rules.parent / "watch.yaml"
    file.write_text("{custom_rules: mine, rules: []}")
    said = "bad.py: line 1: invalid syntax"
    assert tocsin("check", ill, "--rules", rules).complaint == f"{rules}/{said}"
    complaint = tocsin("check", ill, "--watch", file).complaint
    assert complaint == f"{file}: custom_rules: {rules}/{said}"
    assert "no such file" in tocsin("rules", "--rules", rules / "none").complaint


@pytest.mark.parametrize("more", [(), ("--profile", "recommended")])
def test_a_runs_own_file_brings_none(tocsin, ill, rules, more):
    """What a training job wrote is never run; and that is said."""
    (rules / "bad.py").write_text("raise SystemExit('was run')")
    own = json.dumps({"custom_rules": str(rules), "rules": ["ExplodingTensor", "TooHigh"]})
    (ill / "watch.json").write_text(own)
    said = tocsin("check", ill, "--json", *more)
    assert "refused custom_rules of watch.json: " in said.err
    assert "was run" not in said.err
    statuses = {rule["Rule"]: rule["RuleEvaluationStatus"] for rule in said.json["rules"]}
    assert statuses == {"ExplodingTensor": "IssuesFound", "TooHigh": "Error"}


def test_they_are_listed_and_explained(tocsin, rules):
    assert "TooHigh" not in tocsin("rules").out
    listed = tocsin("rules", "--rules", rules)
    assert "The loss is too high." in listed.out
    document = tocsin("rules", "TooHigh", "--rules", rules, "--json").json
    assert document["summary"] == "The loss is too high."
    assert document["parameters"][0]["defaults"] == {"recommended": 1.0, "sagemaker": 1.0}
    assert document["reads"]["whole_run"] is True
    assert "the run up to the step" in tocsin("rules", "TooHigh").out
