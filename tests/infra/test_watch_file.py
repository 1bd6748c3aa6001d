from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tocsin.rules import _registry
from tocsin_cdk.option_parsers import OptionError
from tocsin_cdk.watch_file import custom_rules, default_watch


def test_without_a_file_all_defaults_apply() -> None:
    assert json.loads(default_watch(None)) == {}


def test_yaml_becomes_json(tmp_path: Path) -> None:
    file = tmp_path / "watch.yaml"
    file.write_text("profile: sagemaker\nrules: [VanishingGradient]\n")
    watch = json.loads(default_watch(file))
    assert watch["profile"] == "sagemaker"
    assert [rule["rule"] for rule in watch["rules"]] == ["VanishingGradient"]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("watch.yaml", "rules: [", "not YAML"),
        ("watch.json", "{", "not JSON"),
        ("watch.yaml", "rulez: []", "rulez: unknown key"),
        ("watch.yaml", "rules: [NoSuchRule]", "NoSuchRule"),
        ("watch.yaml", "rules: [{rule: VanishingGradient, parameters: {treshold: 1}}]", "treshold"),
        ("watch.yaml", "just text", "mapping"),
    ],
)
def test_what_is_wrong_is_found_at_deployment(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(OptionError, match=rf"^option watchFile: .*{name}:1: .*{why}"):
        default_watch(file)


WRONG = """\
rules:
  - rule: VanishingGradient
    inhibits: [VanishingGradient]
    actions:
      - emial
      - email:a@example.com
      - email:b@example.org
      - webhook:ops
      - webhook:dev
notify: {repeat_interval: 0s}
silences: [{job: "nightly-*"}]
"""


def test_all_problems_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "watch.yaml"
    file.write_text(WRONG)

    def lines(allowed: list[str] | None, webhooks: list[str] | None) -> list[str]:
        with pytest.raises(OptionError) as wrong:
            default_watch(file, allowed, webhooks)
        start = f"option watchFile: {file}:"
        return [line.removeprefix(start).split(": ")[0] for line in str(wrong.value).splitlines()]

    assert lines(None, None) == ["3", "5", "10", "11"]
    assert lines(["*@example.org"], ["ops"]) == ["3", "5", "6", "9", "10", "11"]
    assert lines([], []) == ["3", "5", "6", "7", "8", "9", "10", "11"]


def test_recipients_of_the_deployment(tmp_path: Path) -> None:
    file = tmp_path / "watch.yaml"
    file.write_text('actions: ["email:a@example.com", "webhook:ops"]')
    watch = json.loads(default_watch(file, ["a@Example.com"], ["ops"]))
    assert watch["actions"] == ["email:a@example.com", "webhook:ops"]
    with pytest.raises(OptionError, match=r"add it, or .*, to the option allowedRecipients"):
        default_watch(file, ["b@example.com"], ["ops"])


def test_a_silence_that_is_over_is_left_out_and_refuses_no_deployment(tmp_path: Path) -> None:
    file = tmp_path / "watch.yaml"
    file.write_text(
        "silences:\n"
        "  - {job: old, until: 2020-01-01T00:00:00Z}\n"
        "  - {job: new, until: 9000-01-01T00:00:00Z}\n"
    )
    assert [each["job"] for each in json.loads(default_watch(file))["silences"]] == ["new"]


RULE = """
from smdebug.rules.rule import Rule

class MyOwnRule(Rule):
    def __init__(self, base_trial, limit=3):
        super().__init__(base_trial)

    def invoke_at_step(self, step):
        return False
"""


@pytest.fixture
def custom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A watch file beside a folder with a rule."""
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rule.py").write_text(RULE)

    def write(text: str) -> Path:
        file = tmp_path / "watch.yaml"
        file.write_text(text)
        return file

    return write


def test_rules_of_a_custom_folder_are_known(custom: Callable[[str], Path]) -> None:
    file = custom("custom_rules: mine/\nrules: [{rule: MyOwnRule, parameters: {limit: 5}}]\n")
    watch = json.loads(default_watch(file))
    assert watch["rules"][0]["parameters"] == {"limit": 5}
    assert watch["custom_rules"] is None  # nobody is to look for the folder in Lambda
    assert custom_rules(file) == file.parent / "mine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{custom_rules: theirs, rules: []}", "custom_rules: .*/theirs is not a folder"),
        ("{custom_rules: mine/rule.py, rules: []}", "custom_rules: .*/rule.py is not a folder"),
        ("{custom_rules: mine, rules: [{rule: MyOwnRule, parameters: {limt: 5}}]}", "'limt'"),
        ("{custom_rules: mine, rules: [OtherRule]}", "unknown rule 'OtherRule'"),
        ("{custom_rules: bad, rules: []}", "custom_rules: .*bad.py: line 1: ZeroDivisionError"),
    ],
)
def test_what_is_wrong_with_custom_rules_is_found_at_deployment(
    custom: Callable[[str], Path], tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "bad.py").write_text("1/0")
    with pytest.raises(OptionError, match=rf"^option watchFile: .*watch.yaml:1: .*{why}"):
        default_watch(custom(text))


@pytest.mark.parametrize("text", [None, "rules: []"])
def test_there_need_be_no_custom_rules(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "watch.yaml"
    file.write_text(text or "")
    assert custom_rules(None if text is None else file) is None
