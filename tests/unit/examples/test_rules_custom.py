"""The examples of custom rules do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.custom import load_files
from tocsin.evaluation import check, document
from tocsin.model import Mode
from tocsin.rules import _registry
from tocsin.tensors import Captured, Collection, RunWriter, open_storage, summarize
from tocsin.watch import to_watch

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "rules_custom"
ACCURACIES = [0.5, 0.95, 0.94, 0.93, 0.91, 0.85]


@pytest.fixture(autouse=True)
def _loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    load_files(FOLDER)


@pytest.fixture
def run(tmp_path: Path) -> str:
    """An iterative pruning by two workers: each round a third of 300 weights becomes zero."""
    storage = open_storage(tmp_path / "pruning")
    for worker in ("worker_0", "worker_1"):
        writer = RunWriter(storage, worker, run_id="r")
        weights = Collection("weights", include_regex=("weight$",))
        writer.write_collections([weights, Collection("losses", include_regex=("^loss$",))], 2)
        weight = {"conv1.weight": np.ones(200), "conv2.weight": np.ones(100)}
        for number, accuracy in enumerate(ACCURACIES):
            for value in weight.values():
                value[: value.size * number // 6] = 0
            tensors = [
                Captured(name, shape=value.shape, summary=summarize(value))
                for name, value in weight.items()
            ]
            loss = Captured("loss", np.float32(9 if number == 4 else 1))
            writer.write(2 * number, Mode.TRAIN, number, [*tensors, loss])
            eval_ = [Captured("val_accuracy", np.float32(accuracy))]
            writer.write(2 * number + 1, Mode.EVAL, number, eval_)
    writer.close()
    return storage.url


def judged(run: str, rule: str, **parameters: Any) -> dict[str, Any]:
    watch = to_watch({"rules": [{"rule": rule, "parameters": parameters}]})
    checkpoint, report = check(open_storage(run), watch)
    assert not report.log
    (found,) = document(checkpoint)["rules"]
    return found


@pytest.mark.parametrize(
    ("parameters", "step", "details"),
    [
        ({}, 11, "accuracy 0.850 is below 0.9"),
        ({"min_accuracy": 0.92}, 9, "accuracy 0.910 is below 0.92"),
        ({"min_accuracy": 0, "max_drop": 0.05}, 11, "accuracy 0.850 is below 0.9"),
        ({"min_accuracy": 0, "max_drop": 0.03}, 9, "accuracy 0.910 is below 0.92"),
        ({"max_weights": 150}, 6, "150 weights are not zero, 150 is small enough"),
        ({"max_weights": "149"}, 8, "101 weights are not zero, 149 is small enough"),
        ({"min_accuracy": 0.97}, None, ""),
        ({"min_accuracy": 0.1, "max_weights": 49}, None, ""),
        ({"accuracy_regex": "nothing"}, None, ""),
    ],
)
def test_pruning(run: str, parameters: dict[str, Any], step: int | None, details: str) -> None:
    found = judged(run, "PruningDone", **parameters)
    assert found["RuleEvaluationStatus"] == ("IssuesFound" if step else "NoIssuesFound")
    assert (found["FirstViolation"] or {}).get("step") == step
    assert found["StatusDetails"].startswith(details)


@pytest.mark.parametrize(
    ("spreads", "fires_at"),
    [([1, 1, 1, 1], None), ([1, 0, 0, 0], None), ([0.05, 0, 0, 0], 2), ([0.2, 0, 0, 0], None)],
)
def test_posterior_collapse(tmp_path: Path, spreads: list[float], fires_at: int | None) -> None:
    """The units' means spread over the samples until step 2, and from then on as given."""
    writer = RunWriter(open_storage(tmp_path), "worker_0", run_id="r")
    writer.write_collections([Collection("latents", include_regex=("latent_mean",))], 1)
    means = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)
    for step in range(4):
        latent = means * (np.float32(spreads) if step >= 2 else 1)
        writer.write(step, Mode.EVAL, step, [Captured("latent_mean", latent)])
    writer.close()
    found = judged(str(tmp_path), "PosteriorCollapse")
    assert (found["FirstViolation"] or {}).get("step") == fires_at
    if fires_at:
        assert found["StatusDetails"] == "0 of 4 units of latent_mean vary over the samples"


def test_the_rule_in_the_documentation(run: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "custom-rules.md").read_text()
    (tmp_path / "rule.py").write_text(text.split("```python\n")[1].partition("```")[0])
    load_files(tmp_path / "rule.py")
    found = judged(run, "LossTooHigh", limit="8")
    assert (found["FirstViolation"]["step"], found["StatusDetails"]) == (8, "loss is 9")


def test_written_for_smdebug(run: str) -> None:
    found = judged(run, "LossAboveAverage")
    assert (found["FirstViolation"]["step"], found["Violations"]) == (8, 1)
