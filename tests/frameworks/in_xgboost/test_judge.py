"""``judge=True`` in XGBoost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xgboost as xgb
from tocsin_hooks.xgboost import TocsinCallback

from tests.frameworks.judging import assert_judged


def uphill(predictions: np.ndarray, data: xgb.DMatrix) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the squared error with the wrong sign."""
    return data.get_label() - predictions, np.ones_like(predictions)


def test_findings_are_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    x = np.random.default_rng(0).normal(size=(200, 4))
    data = xgb.DMatrix(x, x.sum(1))
    callback = TocsinCallback(tmp_path / "run", judge=True, save_interval=1)
    xgb.train(
        {"eval_metric": "rmse", "max_depth": 3},
        data,
        60,
        evals=[(data, "train")],
        obj=uphill,
        callbacks=[callback],
        verbose_eval=False,
    )
    assert_judged(tmp_path / "run", caplog)
