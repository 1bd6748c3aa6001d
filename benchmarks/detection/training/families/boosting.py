"""Boosted trees with XGBoost, captured under the names that smdebug's hook gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import xgboost as xgb
from tocsin_hooks import Hook, modes

from benchmarks.detection.training.data import Array, Task
from benchmarks.detection.training.objective import Objective
from benchmarks.detection.training.outcome import Outcome, finite
from benchmarks.detection.training.recorder import ROWS, Recorder
from benchmarks.detection.training.samples import Data, Samples, prepare
from benchmarks.detection.training.setup import Setup

IMPORTANCE = ("weight", "gain", "cover", "total_gain", "total_cover")


def train(setup: Setup, folder: Path) -> Outcome:
    """Boost for ``steps`` rounds, and write the run into ``folder``."""
    started = perf_counter()
    data = prepare(setup)
    hook = Hook(folder, save_interval=setup.save_interval, run_id=setup.name, max_overhead=None)
    recorder = Recorder(hook)
    capture = _Capture(recorder, data)
    trained, validation = _matrix(data.train), _matrix(data.evaluation)
    booster = xgb.train(
        _parameters(setup, data),
        trained,
        num_boost_round=setup.steps,
        evals=[(trained, "train"), (validation, "validation")],
        callbacks=[capture],
        verbose_eval=False,
    )
    recorder.close()
    ends = [_end(booster, part, data.task) for part in (data.truth, data.train)]
    numbers = [finite(number) for end in ends for number in end]
    seconds = round(perf_counter() - started, 3)
    losses = tuple(map(finite, capture.evaluations))
    return Outcome(numbers[0], numbers[1], numbers[2], numbers[3], losses, recorder.given, seconds)


def _parameters(setup: Setup, data: Data) -> dict[str, Any]:
    binary = data.outputs == 2
    common = {
        "eta": setup.learning_rate,
        "max_depth": setup.depth,
        "lambda": setup.weight_decay,
        "seed": setup.seed,
        "nthread": 1,
        "base_score": 0.5,
    }
    if data.task == "numbers":
        return common | {"objective": "reg:squarederror", "eval_metric": "rmse"}
    if binary:
        return common | {"objective": "binary:logistic", "eval_metric": "logloss"}
    return common | {
        "objective": "multi:softprob",
        "eval_metric": "mlogloss",
        "num_class": data.outputs,
    }


class _Capture(xgb.callback.TrainingCallback):
    """Saves after each round what smdebug's callback saves."""

    def __init__(self, recorder: Recorder, data: Data) -> None:
        super().__init__()
        self._recorder = recorder
        self._data = data
        self.evaluations: list[float] = []

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        hook, train = self._recorder.hook, self._data.train.take(slice(4 * ROWS))
        with hook.step(modes.GLOBAL):
            if not hook.saving:
                return False
            for part, metrics in evals_log.items():
                for metric, values in metrics.items():
                    hook.save(f"{part}-{metric}", float(values[-1]), "metrics")
            self.evaluations.append(float(next(iter(evals_log["validation"].values()))[-1]))
            matrix = _matrix(train)
            hook.save("predictions", model.predict(matrix), "predictions", raw=True)
            hook.save("labels", train.y.reshape(-1).astype(np.float32), "labels", raw=True)
            for kind in IMPORTANCE:
                for feature, score in model.get_score(importance_type=kind).items():
                    hook.save(f"feature_importance/{kind}/{feature}", score, "feature_importance")
            for feature, share in enumerate(_shap(model, matrix)):
                hook.save(f"average_shap/f{feature}", float(share), "average_shap")
            for column, cells in _trees(model).items():
                hook.save(f"trees/{column}", cells, "trees", raw=True)
        self._recorder.saved()
        return False


def _shap(model: Any, matrix: Any) -> Array:
    """Each feature's mean contribution, over samples and classes; the last is the bias."""
    found: Array = model.predict(matrix, pred_contribs=True)
    mean: Array = found.reshape(-1, found.shape[-1]).mean(axis=0)[:-1]
    return mean


def _trees(model: Any) -> dict[str, list[int] | list[float] | list[str]]:
    """The newest tree, a row a node."""
    tree = model.num_boosted_rounds() - 1
    dump = model[tree : tree + 1].get_dump(dump_format="json", with_stats=True)
    nodes = sorted(_nodes(json.loads(dump[-1])), key=lambda node: int(node["nodeid"]))
    leaf = [("leaf" in node) for node in nodes]

    def links(key: str) -> list[str]:
        return [f"{tree}-{node[key]}" if key in node else "nan" for node in nodes]

    return {
        "Tree": [tree] * len(nodes),
        "Node": [int(node["nodeid"]) for node in nodes],
        "ID": links("nodeid"),
        "Feature": [
            "Leaf" if end else node["split"] for end, node in zip(leaf, nodes, strict=True)
        ],
        "Split": [float(node.get("split_condition", "nan")) for node in nodes],
        "Yes": links("yes"),
        "No": links("no"),
        "Missing": links("missing"),
        "Gain": [float(node["gain"] if "gain" in node else node["leaf"]) for node in nodes],
        "Cover": [float(node["cover"]) for node in nodes],
    }


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("children", ()):
        yield from _nodes(child)


def _matrix(samples: Samples) -> Any:
    x = samples.x.reshape(len(samples.x), -1)
    return xgb.DMatrix(x, samples.y.reshape(-1), feature_names=[f"f{n}" for n in range(x.shape[1])])


def _end(booster: Any, samples: Samples, task: Task) -> tuple[float, float]:
    outputs = booster.predict(_matrix(samples), output_margin=True)
    if task == "classes" and outputs.ndim == 1:
        outputs = np.stack([np.zeros_like(outputs), outputs], axis=1)
    objective = Objective(task)
    outputs = outputs.reshape(len(samples.x), -1)
    return objective.loss(outputs, samples.y)[0], objective.metric(outputs, samples.y)
