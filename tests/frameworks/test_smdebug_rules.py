"""A rule file written for smdebug is met at the same steps there, here, and in the engine."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from tocsin import RuleEvaluationConditionMet, create_trial, invoke_rule
from tocsin.custom import load_files, smdebug_names
from tocsin.evaluation import check
from tocsin.rules import _registry
from tocsin.tensors import open_storage
from tocsin.watch import to_watch

from tests.frameworks.environment import HERE, ROOT, answer

FILE = HERE / "rules_for_smdebug.py"
EXAMPLE = ROOT / "examples" / "rules_custom" / "written_for_smdebug.py"
RUNS = ROOT / "tests" / "fixtures" / "smdebug"
CASES = [
    ("torch_mlp", FILE, "AboveAverage", {}),
    ("torch_mlp", FILE, "AboveAverage", {"regex": "^gradient.*weight", "factor": "0.9"}),
    ("torch_mlp", FILE, "AboveAverage", {"regex": "bias"}),
    ("torch_mlp", FILE, "Patience", {"action_str": ""}),
    ("torch_mlp", FILE, "Patience", {"action_str": "", "mode": "EVAL", "patience": "2"}),
    ("torch_mlp", FILE, "GradientShrinks", {}),
    ("torch_mlp", FILE, "GradientShrinks", {"reduction": "mean"}),
    ("torch_mlp", FILE, "EveryThird", {}),
    ("torch_mlp", FILE, "Ending", {}),
    ("torch_mlp", EXAMPLE, "LossAboveAverage", {"factor": 1.0}),
    ("multi_worker", FILE, "AboveAverage", {"regex": "weight"}),
    ("multi_worker", FILE, "Patience", {"action_str": ""}),
    ("multi_worker", FILE, "EveryThird", {}),
    ("multi_worker", EXAMPLE, "LossAboveAverage", {}),
    ("xgboost", FILE, "AboveAverage", {"regex": "shap|logloss"}),
]


@pytest.fixture(scope="module")
def theirs():
    """What smdebug says of each case."""
    said = {}
    for run, file in sorted({case[:2] for case in CASES}):
        cases = [case for case in CASES if case[:2] == (run, file)]
        wanted = json.dumps([case[2:] for case in cases])
        for case, steps in zip(
            cases, answer("smdebug", "invoke_smdebug.py", file, folder(run), wanted), strict=True
        ):
            said[CASES.index(case)] = steps
    return said


def folder(run: str) -> Path:
    return next(path for path in (RUNS / run / "run", RUNS / run / "tensors") if path.is_dir())


def test_the_cases_tell_something(theirs):
    assert sum(bool(steps) for steps in theirs.values()) > len(CASES) / 2
    assert any(not steps for steps in theirs.values())


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n][0]}-{CASES[n][2]}")
def test_invoke_rule(theirs, number):
    run, file, name, parameters = CASES[number]
    spec = importlib.util.spec_from_file_location("rules_in_a_file", file)
    module = importlib.util.module_from_spec(spec)
    with smdebug_names():
        spec.loader.exec_module(module)
        rule = getattr(module, name)(create_trial(folder(run)), **parameters)
        invoke, steps = rule.invoke, []

        def recorded(step):
            try:
                invoke(step)
            except RuleEvaluationConditionMet:
                steps.append(step)
                raise

        rule.invoke = recorded
        invoke_rule(rule)
    assert steps == theirs[number]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n][0]}-{CASES[n][2]}")
def test_engine(theirs, number, monkeypatch):
    run, file, name, parameters = CASES[number]
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    load_files(file)
    parameters = {key: value for key, value in parameters.items() if key != "action_str"}
    watch = to_watch({"rules": [{"rule": name, "parameters": parameters}]})
    checkpoint, report = check(open_storage(folder(run)), watch)
    record, steps = checkpoint.rules[name], theirs[number]
    assert record.violations == len(steps), record.details
    if steps:
        assert record.first_violation.step == steps[0]
        assert record.last_violation.step == steps[-1]
        assert record.first_violation.detail == f"{name} returned True at step {steps[0]}"
    assert not report.log
