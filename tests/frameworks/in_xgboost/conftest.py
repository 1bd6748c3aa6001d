"""Tiny data and trainings. Skipped where XGBoost is not installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.evaluation import check, document
from tocsin.tensors import open_storage
from tocsin.watch import Watch, to_watch

collect_ignore_glob = [] if find_spec("xgboost") else ["test_*.py"]


@pytest.fixture(autouse=True)
def _outside_sagemaker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRAINING_JOB_NAME", "TOCSIN", "TOCSIN_RUN", "USE_SMDEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def features() -> Any:
    return np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


@pytest.fixture(scope="session")
def data(features: Any) -> tuple[Any, Any]:
    """40 samples to train and 20 to validate, of two classes."""
    import xgboost as xgb

    noise = np.random.default_rng(1).normal(size=60)
    labels = (features[:, 0] + features[:, 1] + 0.3 * noise > 0).astype(int)
    return (
        xgb.DMatrix(features[:40], label=labels[:40]),
        xgb.DMatrix(features[40:], label=labels[40:]),
    )


@pytest.fixture
def train(data: tuple[Any, Any], tmp_path: Path) -> Callable[..., Any]:
    """Train some rounds with a callback that saves every one, and give the booster."""
    import xgboost as xgb
    from tocsin_hooks.xgboost import TocsinCallback

    def run(
        rounds: int = 4,
        *,
        parameters: Mapping[str, Any] | None = None,
        evals: bool = True,
        callback: Any = None,
        out: Any = None,
        options: Mapping[str, Any] | None = None,
        **rest: Any,
    ) -> Any:
        training, validation = data
        named = [(training, "train"), (validation, "validation")]
        quick = {"save_interval": 1, "max_overhead": 1}
        made = callback or TocsinCallback(
            out or tmp_path / "run", **({"validation": validation} | quick | (options or {}))
        )
        given = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
        return xgb.train(
            given | (parameters or {}),
            rest.pop("dtrain", training),
            rounds,
            evals=rest.pop("named", named if evals else []),
            verbose_eval=False,
            callbacks=[*rest.pop("before", []), made],
            **rest,
        )

    return run


@pytest.fixture
def verdicts() -> Callable[..., dict[str, str]]:
    """The status of each rule over a run, by name; by default of the recommended ones."""

    def judge(run: Path, rules: list[Any] | None = None) -> dict[str, str]:
        watch: Watch | None = None if rules is None else to_watch({"rules": rules})
        checkpoint, report = check(open_storage(run), watch)
        assert not report.log
        found = document(checkpoint)["rules"]
        return {rule["RuleConfigurationName"]: rule["RuleEvaluationStatus"] for rule in found}

    return judge
