"""No error of ours reaches a training of XGBoost, wherever it is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from tests.injection import harmful


def test_no_error_of_ours_reaches_a_training(train: Any, tmp_path: Path) -> None:
    runs = itertools.count()

    def training() -> object:
        return train(2, out=tmp_path / str(next(runs))).get_dump(with_stats=True)

    # All ranks must come to the same answer: an error among them is the training's own.
    assert harmful(training, "xgboost/") == ["_agreed raises into the training"]
