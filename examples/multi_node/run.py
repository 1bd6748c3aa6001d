"""Finds the node with wrong labels, the slow node, and a fault in sharded weights.

``train.py`` needs PyTorch and runs in an environment of its own; the rules look at its runs here.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tocsin import create_trial, modes
from tocsin.evaluation import check, document
from tocsin.tensors import machine_run, open_storage

from examples.shown import Shown, chart

ROOT = Path(__file__).parents[2]
LOSS = "CrossEntropyLoss_output_0"


def trained(python: Path, folder: Path) -> None:
    """Runs the trainings with an interpreter that has PyTorch."""
    paths = (ROOT / "rules_layer", ROOT / "hooks", ROOT)
    subprocess.run(
        [python, Path(__file__).with_name("train.py"), folder],
        env={**os.environ, "PYTHONPATH": ":".join(map(str, paths))},
        check=True,
    )


def findings(run: Path) -> dict[str, str]:
    """The rules that fired in a run, and in that of its machines, with what they say."""
    rules = []
    for place in (str(run), machine_run(str(run))):
        rules += document(check(open_storage(place))[0])["rules"]
    fired = (rule for rule in rules if rule["RuleEvaluationStatus"] == "IssuesFound")
    return {rule["Rule"]: rule["StatusDetails"] for rule in fired}


def shown(folder: Path) -> Shown:
    figures = {
        form: said(findings(folder / run))
        for run, form in (
            ("healthy", "two nodes that train well"),
            ("wrong-labels", "labels of the second node in another order"),
            ("slow-node", "forward passes of the second node take 50 ms instead of 10 ms"),
            ("sharded", "parameters sharded over both (FSDP2), initial weights 50 times too large"),
        )
    }
    lines = {worker: losses(folder / "wrong-labels", worker) for worker in ("worker_0", "worker_1")}
    title = "Loss of each worker; the labels of worker_1 are wrong"
    return Shown(figures, chart(title, "step", lines, top=2.5))


def said(found: dict[str, str]) -> str:
    return "; ".join(f"**{rule}**: {details}" for rule, details in found.items()) or "no rule fires"


def losses(run: Path, worker: str) -> list[tuple[float, float]]:
    loss = create_trial(str(run)).tensor(LOSS)
    steps = loss.steps(mode=modes.TRAIN)
    return [(step, float(loss.value(step, mode=modes.TRAIN, worker=worker))) for step in steps]


def run(out: Path, *, small: bool = False) -> Shown:
    """Four trainings of 300 steps, also in the small form: fewer show no broken node for sure."""
    from local.interpreter import interpreter

    requirements = ROOT / "tests" / "frameworks" / "torch-requirements.txt"
    trained(interpreter(ROOT / ".venv-torch", requirements), out)
    return shown(out)
