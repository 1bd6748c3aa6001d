"""Train XGBoost on two tables that scikit-learn ships, and make the whole report of each.

A regression (how diabetes progresses) and a classification (is a tumour benign) are captured with
labels, predictions, importances, trees and SHAP values. Their reports have a section for each. The
SHAP summary is drawn from the values that the run has captured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split
from tocsin import create_trial
from tocsin.report import html_of, report_on
from tocsin.report.parts import Boosted
from tocsin.tensors import open_storage
from tocsin.watch import read_watch
from tocsin_hooks.xgboost import TocsinCallback

from examples.shown import Shown
from examples.xgboost_report.swarm import Swarm, summary

WATCH = Path(__file__).with_name("watch.yaml")
SHARED = {"max_depth": 2, "eta": 0.1, "subsample": 0.7, "min_child_weight": 5, "nthread": 1}
MOST = 6  # features of a summary


@dataclass(frozen=True)
class Task:
    """data: of scikit-learn, with ``data``, ``target`` and ``feature_names``."""

    data: Any
    parameters: Mapping[str, Any]


def tasks() -> dict[str, Task]:
    classify = {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"]}
    return {
        "regression": Task(load_diabetes(scaled=False), {"eval_metric": "rmse"}),
        "classification": Task(load_breast_cancer(), classify),
    }


def train(task: Task, out: Path, rounds: int) -> xgb.DMatrix:
    """Trains on three quarters of the samples, and returns the rest, which SHAP values are of."""
    names = [str(name) for name in task.data.feature_names]
    split = train_test_split(task.data.data, task.data.target, random_state=0)
    known, held_out = (
        xgb.DMatrix(split[at], label=split[at + 2], feature_names=names) for at in (0, 1)
    )
    callback = TocsinCallback(out, validation=held_out, watch=WATCH, save_interval=2)
    evals = [(known, "train"), (held_out, "validation")]
    parameters = {**SHARED, **task.parameters}
    xgb.train(parameters, known, rounds, evals=evals, verbose_eval=False, callbacks=[callback])
    return held_out


def swarm(run: Path, held_out: xgb.DMatrix) -> tuple[Swarm, float]:
    """The features with the largest mean |SHAP value|, from the last matrix that was captured.

    Beside them the largest difference between a sample's SHAP values, summed, and its margin.
    """
    trial = create_trial(str(run))
    names = held_out.feature_names
    every = trial.tensor(f"full_shap/{names[0]}")  # each of them has the whole matrix
    step = every.steps()[-1]
    matrix = every.value(step)
    predictions = trial.tensor("predictions").value(step)
    margins = np.log(predictions / (1 - predictions)) if predictions.max() < 1 else predictions
    off = float(np.abs(matrix.sum(axis=1) - margins).max())
    columns = held_out.get_data().toarray()
    largest = np.abs(matrix[:, :-1]).mean(axis=0).argsort()[::-1][:MOST]
    return {names[at]: (matrix[:, at], columns[:, at]) for at in largest}, off


def sections(boosted: Boosted | None) -> int:
    """Return how many charts and tables a report has about the trees."""
    if boosted is None:
        return 0
    tables = bool(boosted.matrix) + bool(boosted.scores)
    return len(boosted.bars) + len(boosted.lines) + tables


def run(out: Path, *, small: bool = False) -> Shown:
    """Trains both, and writes ``<task>.html`` beside their runs. The small form has few rounds."""
    figures: dict[str, str] = {}
    swarms: dict[str, Swarm] = {}
    for name, task in tasks().items():
        held_out = train(task, out / name, 41 if small else 61)
        page = report_on(open_storage(out / name), read_watch(WATCH))
        (out / f"{name}.html").write_text(html_of(page), "utf-8")
        fired = [rule.name for rule in page.rules if rule.status == "IssuesFound"]
        found, off = swarm(out / name, held_out)
        swarms[f"{name}: SHAP values of {held_out.num_row()} held-out samples"] = found
        loss, boosted = page.losses[-1], page.boosted
        figures |= {
            f"{name}: {loss.name}": f"{loss.y[0]:.3g} at first, {loss.y[-1]:.3g} in the end",
            f"{name}: sections of the report": str(sections(boosted)),
            f"{name}: rules that fired": ", ".join(fired) or "none",
            f"{name}: largest mean absolute SHAP values": ", ".join([*found][:3]),
            f"{name}: SHAP values of a sample add up to its prediction": f"to {off:.0e}",
        }
    return Shown(figures, summary(swarms))
