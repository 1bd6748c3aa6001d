"""The examples as people run them, and what ``tocsin check`` finds in their runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tocsin.evaluation import check
from tocsin.model import RuleStatus
from tocsin.tensors import END_MARKER, open_storage

EXAMPLES = Path(__file__).parents[3] / "examples"
NO_GRADIENTS = {"VanishingGradient", "GradientExplosion"}


def statuses(run, script, *arguments, backend="jax"):
    """How the recommended rules judge the run of an example, every batch of which may be saved."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, "--out", run, "--max-overhead", "1", *arguments],
        cwd=EXAMPLES.parent,
        env=os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert (run / END_MARKER).exists(), done.stderr
    rules = check(open_storage(run))[0].rules
    return {name: record.status for name, record in rules.items()}


def fired(rules):
    assert RuleStatus.ERROR not in rules.values()
    return {name for name, status in rules.items() if status is RuleStatus.ISSUES_FOUND}


@pytest.mark.parametrize("backend", ["torch", "jax", "tensorflow"])
def test_keras_trains_well(tmp_path, backend):
    rules = statuses(tmp_path / "run", "digits_keras.py", "--steps", "345", backend=backend)
    assert fired(rules) == set()
    assert rules["LossNotDecreasing"] is RuleStatus.NO_ISSUES_FOUND
    judged = {name for name in NO_GRADIENTS if rules[name] is not RuleStatus.NOT_APPLICABLE}
    assert judged == (NO_GRADIENTS if backend == "torch" else set())


@pytest.mark.parametrize("script", ["digits_jax.py", "loop_tensorflow.py"])
def test_a_loop_trains_well(tmp_path, script):
    rules = statuses(tmp_path / "run", script)
    assert fired(rules) == set()
    judged = {"LossNotDecreasing", "VanishingGradient", "GradientExplosion", "Overfit"}
    judged |= {"DeadRelu"} if script == "loop_tensorflow.py" else set()
    assert {rules[name] for name in judged} == {RuleStatus.NO_ISSUES_FOUND}


@pytest.mark.parametrize(
    ("script", "fault", "expected"),
    [
        ("digits_keras.py", "learning-rate", "LossDiverging"),
        ("digits_keras.py", "dead-relu", "LossNotDecreasing"),
        ("digits_jax.py", "learning-rate", "LossDiverging"),
        ("digits_jax.py", "vanishing", "VanishingGradient"),
        ("loop_tensorflow.py", "learning-rate", "LossDiverging"),
        ("loop_tensorflow.py", "dead-relu", "DeadRelu"),
    ],
)
def test_a_fault_is_found(tmp_path, script, fault, expected):
    assert expected in fired(statuses(tmp_path / "run", script, "--fault", fault))


@pytest.mark.parametrize("script", ["digits_jax.py", "loop_tensorflow.py"])
def test_it_is_as_short_as_one_likes(tmp_path, script):
    assert fired(statuses(tmp_path / "run", script, "--steps", "3")) == set()
