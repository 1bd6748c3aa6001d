"""All that is wrong with a watch file, with its lines."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest
from tocsin.custom import load_files
from tocsin.watch import Fault, FaultInLine, lint

from tests.irregular import IRREGULAR, in_time

NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)


def refuses(kind, recipient):
    return f"{kind} {recipient} is a stranger" if "stranger" in recipient else None


def linted(tmp_path, content, name="watch.yaml"):
    path = tmp_path / name
    path.write_text(content)
    watch, problems = lint(path, refuses, load_files, NOW)
    return watch, [problem.at(name) for problem in problems]


WRONG = """\
actions: [email, "email:stranger@example.com"]
colour: red
rules:
  - VanishingGradiant
  - rule: LossNotDecreasing
    name: stalled
    parameters:
      num_step: 50
      bogus: 3
    severity: awful
    actions:
      - emial
      - email:nobody
      - sms:+15551230000
      - webhook:stranger
    inhibits:
      - Overfit
      - stalled
  - {rule: ExplodingTensor, for_steps: 0}
  - ExplodingTensor
notify:
  group_wait: 20m
  repeat_interval: 0
  summary: ["email:other-stranger@example.com"]
silences:
  - job: "nightly-*"
  - until: 2026-11-19T08:00:00Z
  - until: 2026-12-01T08:00:00Z
    job: 7
"""


def test_everything_in_one_go(tmp_path):
    watch, problems = linted(tmp_path, WRONG)
    wanted = [
        "watch.yaml:1: actions[1]: email stranger@example.com is a stranger",
        "watch.yaml:2: colour: unknown key",
        "watch.yaml:4: rules[0].rule: unknown rule 'VanishingGradiant': did you mean",
        "watch.yaml:8: rules[1].parameters.num_step: ",
        "watch.yaml:9: rules[1].parameters.bogus: ",
        "watch.yaml:10: rules[1].severity: invalid enum value 'awful': known are critical,",
        "watch.yaml:12: rules[1].actions[0]: unknown action 'emial'",
        "watch.yaml:13: rules[1].actions[1]: 'email:nobody'",
        "watch.yaml:15: rules[1].actions[3]: webhook stranger is a stranger",
        "watch.yaml:17: rules[1].inhibits[0]: no rule of this file is named 'Overfit'",
        "watch.yaml:18: rules[1].inhibits[1]: a rule cannot inhibit itself",
        "watch.yaml:19: rules[2].for_steps: ",
        "watch.yaml:20: rules[3]: 'ExplodingTensor' is used 2 times",
        "watch.yaml:22: notify.group_wait: ",
        "watch.yaml:23: notify.repeat_interval: ",
        "watch.yaml:24: notify.summary[0]: email other-stranger@example.com is a stranger",
        "watch.yaml:26: silences[0]: ",
        "watch.yaml:27: silences[1].until: '2026-11-19T08:00:00+00:00' has expired",
        "watch.yaml:29: silences[2].job: ",
    ]
    assert len(problems) == len(wanted), problems
    for problem, start in zip(problems, wanted, strict=True):
        assert problem.startswith(start)
    assert watch is not None
    assert len(watch.rules or ()) == 4


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("watch.yaml", "rules:\n  - [a\n", "watch.yaml:3: not YAML"),
        ("watch.json", '{\n"rules": [],\n}', "watch.json:3: not JSON"),
        ("watch.yaml", "7", "watch.yaml:1: expected a mapping"),
        ("watch.json", '{"actions": "' + "x" * (1 << 20) + '"}', "watch.json: larger than"),
    ],
)
def test_what_cannot_be_read_at_all(tmp_path, name, content, problem):
    watch, (said,) = linted(tmp_path, content, name)
    assert watch is None
    assert said.startswith(problem)


@pytest.mark.parametrize("kind", IRREGULAR)
def test_what_is_no_regular_file(tmp_path, kind):
    IRREGULAR[kind](tmp_path / "watch.yaml")
    watch, (problem,) = in_time(lambda: lint(tmp_path / "watch.yaml", refuses, load_files))
    assert watch is None
    assert problem.at("watch.yaml") == (
        f"watch.yaml: {kind}, not a file: give a file, or /dev/stdin"
    )


@pytest.mark.parametrize("content", ["{}", "rules: []", 'actions: ["email:a@example.com", stop]'])
def test_nothing_wrong(tmp_path, content):
    watch, problems = linted(tmp_path, content)
    assert (watch is None, problems) == (False, [])


def test_the_right_line_in_json(tmp_path):
    rule = '{"rule": "Overfit", "name": "b",\n\t\t "colour": 1}'
    content = '{\n\t"rules": [\n\t\t"Overfit",\n\t\t' + rule + "]}"
    _, (problem,) = linted(tmp_path, content, "watch.json")
    assert problem.startswith("watch.json:5: rules[1].colour: unknown key")


def test_amazons_form(tmp_path):
    content = """\
- RuleConfigurationName: a
  RuleParameters:
    rule_to_invoke: VanishingGradient
    treshold: "1"
    action_json: '{"name": "email", "endpoint": "stranger@example.com"}'
"""
    _, problems = linted(tmp_path, content)
    assert [problem.partition(": ")[0] for problem in problems] == ["watch.yaml:4", "watch.yaml:5"]


@pytest.mark.parametrize(
    ("custom", "problem"),
    [
        ("mine", "watch.yaml:2: custom_rules: .*bad.py: line 1: ZeroDivisionError"),
        ("mine/bad.py", "watch.yaml:2: custom_rules: .*bad.py is not a folder"),
        ("other", "watch.yaml:2: custom_rules: .*other is not a folder"),
    ],
)
def test_custom_rules(tmp_path, custom, problem):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bad.py").write_text("1/0")
    watch, (said,) = linted(tmp_path, f"rules: []\ncustom_rules: {custom}\n")
    assert watch is not None
    assert re.match(problem, said)


def test_a_problem_without_a_line():
    problem = FaultInLine(Fault(("notify", "group_wait"), "is long"), None)
    assert problem.at("w.json") == "w.json: notify.group_wait: is long"
