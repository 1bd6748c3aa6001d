"""What ``tocsin check`` says of rules that have judged nothing."""

from __future__ import annotations

import json
import re

import pytest
from tocsin.model import Mode
from tocsin.rules import _registry

from .conftest import write_run

BOTH = (Mode.TRAIN, Mode.EVAL)
NAME_IT = 'name it: hook.record_loss(loss) or hook.save("loss", loss, collection="losses")'
ON_LOSS = {"LossDiverging", "LossNotDecreasing", "LossOscillating", "LossSpike"}
OF_UPDATES = {"LearningRateTooLarge", "LearningRateTooSmall"}

CUSTOM = """
from dataclasses import dataclass

from tocsin import Rule, register
from tocsin.model import Reason, Role
from tocsin.rules import HEALTHY, Read, Reads, not_applicable

@register
@dataclass(frozen=True)
class OnLoss(Rule):
    \"\"\"Reads a loss, in the style of ours.\"\"\"

    def reads(self):
        return Reads({"it": Read(roles=(Role.LOSS,))})

    def evaluate(self, state, step):
        if not step.tensors["it"]:
            return state, not_applicable(Reason.NO_TENSOR, "none")
        return state, HEALTHY

class OnLossOfSmdebug(Rule):
    \"\"\"Reads a loss, in the style of smdebug.\"\"\"

    def __init__(self, base_trial):
        super().__init__(base_trial)

    def invoke_at_step(self, step):
        return self.base_trial.tensor("loss").value(step) > 9

class FailsLater(Rule):
    \"\"\"Judges some steps, then fails.\"\"\"

    def __init__(self, base_trial, at=2):
        super().__init__(base_trial)
        self.at = int(at)

    def invoke_at_step(self, step):
        if step >= self.at:
            raise ValueError("boom")
        return False
"""


@pytest.fixture
def run(tmp_path):
    """``run(steps, names, …)`` writes a run."""
    return lambda *arguments, **more: write_run(tmp_path / "run", *arguments, **more)


def lists(said):
    return {reason: set(names) for reason, names in said.json["not_judged"].items()}


@pytest.mark.parametrize(
    ("steps", "names", "more", "no_loss"),
    [
        (40, "gradient", {}, ON_LOSS | OF_UPDATES | {"Overfit", "Overtraining", "Underfitting"}),
        (40, "gradient", {"end": False}, ON_LOSS | OF_UPDATES),
        # A loss alone would not do for those that read gradients, too.
        (40, "weight", {}, ON_LOSS | {"Overfit", "Overtraining", "Underfitting"}),
        (40, "gradient loss", {}, set()),
        (0, "", {}, set()),
    ],
)
def test_rules_that_lack_a_loss(tocsin, run, steps, names, more, no_loss):
    path = run(steps, names, **more)
    found = lists(tocsin("check", path, "--json"))
    assert found["no_loss"] >= no_loss
    assert bool(found["no_loss"]) == bool(no_loss)
    assert "NonFiniteData" not in found["no_loss"]  # it judges the inputs
    people = tocsin("check", path).out
    count = re.match(r"no loss was captured: (\d+) rules cannot judge\n", people)
    assert int(count[1] if count else 0) == len(found["no_loss"])
    assert (NAME_IT in people) == bool(count)


@pytest.mark.parametrize(
    ("steps", "names", "rule", "reason", "status", "line"),
    [
        (0, "", "DeadRelu", "too_few_steps", "NotApplicable", "the run ended before its first"),
        (1, "loss", "LossSpike", "too_few_steps", "not judged", "too few steps: train longer"),
        (9, "weight", "LossSpike", "no_loss", "NotApplicable", f"no loss was captured; {NAME_IT}"),
        # The user has named something else than a loss.
        (9, "loss", "LossSpike:tensor_regex=^x", "not_captured", "NotApplicable", "no tensor"),
        # Nothing is missing but what the run cannot have.
        (9, "loss", "StragglingWorker", "not_captured", "NotApplicable", "no tensor that"),
    ],
)
def test_one_rule_that_cannot_judge(tocsin, run, steps, names, rule, reason, status, line):
    path = run(steps, names)
    said = tocsin("check", path, "--rule", rule, "--json")
    name = rule.partition(":")[0]
    assert said.code == 2
    assert {reason for reason, names in lists(said).items() if name in names} == {reason}
    assert said.err.startswith(f"tocsin: no rule could judge the run: {line}")
    assert len(said.err.splitlines()) == 1
    people = tocsin("check", path, "--rule", rule)
    assert (people.code, people.err) == (2, said.err)
    assert any(row.split(name)[0].strip() == status for row in people.out.splitlines())


@pytest.mark.parametrize(
    ("rules", "code", "line"),
    [
        ([], 2, "no rule could judge the run: no rule watches the run: name some"),
        (["Nobody"], 2, "no rule could judge the run: Nobody is in Error: unknown rule"),
        (["Nobody", "LossSpike"], 2, "no rule could judge the run: Nobody is in Error"),
        (["Nobody", "AllZero"], 2, "Nobody is in Error: unknown rule"),
        (["AllZero", "LossSpike"], 0, ""),
        (["LossSpike", {"rule": "TensorVariance", "for_steps": 1,
                        "parameters": {"tensor_regex": "fc", "max_threshold": 1e-9}}], 1, ""),
    ],
)  # fmt: skip
def test_the_exit_code(tocsin, run, rules, code, line):
    path = run(30, "weight")
    (path / "watch.json").write_text(json.dumps({"rules": rules}))
    said = tocsin("check", path, "--json")
    assert said.code == code
    assert said.err.startswith(f"tocsin: {line}" if line else "")
    assert len(said.err.splitlines()) == bool(line)
    errors = {
        rule["RuleConfigurationName"]
        for rule in said.json["rules"]
        if rule["RuleEvaluationStatus"] == "Error"
    }
    assert not errors & set.union(*lists(said).values())


@pytest.mark.parametrize(
    ("names", "code", "expected"),
    [
        ("loss", 0, {"no_loss": set(), "not_captured": set()}),
        ("weight", 2, {"no_loss": {"OnLoss"}, "not_captured": {"OnLossOfSmdebug"}}),
    ],
)
def test_rules_of_ones_own(tocsin, run, tmp_path, monkeypatch, names, code, expected):
    """What a rule in the style of smdebug reads is known only when it asks for it."""
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    (tmp_path / "mine.py").write_text(CUSTOM)
    own = ["--rules", tmp_path / "mine.py", "--rule", "OnLoss", "--rule", "OnLossOfSmdebug"]
    said = tocsin("check", run(5, names), "--json", *own)
    assert said.code == code
    assert lists(said) == {**expected, "too_few_steps": set()}


@pytest.mark.parametrize(
    ("at", "line"), [(0, "no rule could judge the run: FailsLater"), (2, "Fail")]
)
def test_a_rule_that_fails_later_has_judged(tocsin, run, tmp_path, monkeypatch, at, line):
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    (tmp_path / "mine.py").write_text(CUSTOM)
    own = ["--rules", tmp_path / "mine.py", "--rule", f"FailsLater:at={at}"]
    said = tocsin("check", run(5, "loss"), *own)
    assert said.code == 2
    assert said.err.startswith(f"tocsin: {line}")
    assert "boom" in said.err


def test_one_rule_is_one(tocsin, run):
    said = tocsin("check", run(9, "weight"), "--rule", "LossSpike")
    assert said.out.startswith("no loss was captured: 1 rule cannot judge\n")


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_to_be_typed_stays_on_one_line(tocsin, run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = tocsin("check", run(9, "weight"))
    assert said.out.splitlines()[1] == NAME_IT
    lines = said.out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("run ")) <= width


def test_the_summary_names_what_is_missing_and_not_what_is_there(tocsin, tmp_path):
    run = write_run(tmp_path / "run", 4, "loss weight")
    rules = ("--rule", "NotNormalizedData", "--rule", "TrainEvalOverlap")
    found = tocsin("check", run, *rules, "--json").json["rules"]
    assert [rule["Missing"] for rule in found] == [["inputs", "targets"], ["samples"]]
    assert found[1]["StatusDetails"].endswith("not captured: role sample")
    assert "2 do not apply here (inputs, samples)" in tocsin("check", run, *rules).out
