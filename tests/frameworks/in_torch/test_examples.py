"""The examples as people run them, and what the rules of profile recommended say of each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tocsin.evaluation import check, document
from tocsin.tensors import END_MARKER, open_storage

from examples.multi_node.run import findings, shown, trained

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def example(name: str, run: Path, *options: str) -> str:
    """Return what it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--out", str(run), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def judged(run: Path) -> tuple[dict[str, Any], set[str]]:
    """What ``tocsin check`` says, and the rules that fired."""
    checkpoint, report = check(open_storage(run))
    assert not report.log
    found = document(checkpoint)
    assert found["finished"] is (run / END_MARKER).exists() is True
    assert not [rule for rule in found["rules"] if rule["RuleEvaluationStatus"] == "Error"]
    fired = (r["Rule"] for r in found["rules"] if r["RuleEvaluationStatus"] == "IssuesFound")
    return found, set(fired)


def applied(found: dict[str, Any]) -> set[str]:
    """The rules that had something to look at."""
    return {r["Rule"] for r in found["rules"] if r["RuleEvaluationStatus"] != "NotApplicable"}


@pytest.mark.parametrize(
    ("name", "looked_at"),
    [
        (
            "digits_torch.py",
            {
                "ClassImbalance",
                "DeadRelu",
                "ExplodingTensor",
                "FrozenParameters",
                "LearningRateTooLarge",
                "NoSkill",
                "NotNormalizedData",
                "Overfit",
                "VanishingGradient",
                "WeightUpdateRatio",
            },
        ),
        (
            "characters_torch.py",
            {
                "ExplodingTensor",
                "FrozenParameters",
                "LearningRateSchedule",
                "LossNotDecreasing",
                "Overfit",
                "VanishingGradient",
            },
        ),
        ("digits_ddp.py", {"StragglingWorker", "WorkersDisagree", "LossNotDecreasing"}),
    ],
)
def test_a_healthy_training_raises_no_alarm(run: Path, name: str, looked_at: set[str]) -> None:
    output = example(name, run)
    found, fired = judged(run)
    assert fired == set(), found
    assert looked_at <= applied(found)
    losses = [
        float(line.split("loss ")[1].split(",")[0])
        for line in output.splitlines()
        if "loss " in line
    ]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("name", "fault", "rule", "tensor"),
    [
        ("digits_torch.py", "exploding", "ExplodingTensor", "CrossEntropyLoss_"),
        ("digits_torch.py", "dead-relu", "DeadRelu", "relu3_output_0"),
        ("digits_torch.py", "frozen", "FrozenParameters", "Network_head.weight"),
        ("characters_torch.py", "too-large-learning-rate", "LearningRateTooLarge", "Writer_"),
        ("characters_torch.py", "vanishing", "VanishingGradient", "gradient/Writer_"),
        ("digits_ddp.py", "desynchronised", "WorkersDisagree", "Sequential_"),
    ],
)
def test_a_fault_is_named(run: Path, name: str, fault: str, rule: str, tensor: str) -> None:
    example(name, run, "--fault", fault)
    found, fired = judged(run)
    assert rule in fired, found
    (named,) = (each for each in found["rules"] if each["Rule"] == rule)
    assert named["FirstViolation"]["tensor"].startswith(tensor)


def test_the_smallest_form_of_multi_node(tmp_path: Path) -> None:
    trained(Path(sys.executable), tmp_path)
    assert not {"PoorWeightInitialization", "WorkerLosses"} & {*findings(tmp_path / "healthy")}
    assert "above that of the other workers" in findings(tmp_path / "wrong-labels")["WorkerLosses"]
    assert "of node_1 takes" in findings(tmp_path / "slow-node")["StragglingNode"]
    assert "PoorWeightInitialization" in findings(tmp_path / "sharded")
    text = (EXAMPLES / "multi_node" / "README.md").read_text()
    assert all(f"| {figure} | " in text for figure in shown(tmp_path).figures)
