"""``judge=True`` in Keras."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
from tocsin_hooks.keras import TocsinCallback

from tests.frameworks.judging import assert_judged


def test_findings_are_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e4), "mse")
    callback = TocsinCallback(tmp_path / "run", judge=True, save_interval=1)
    model.fit(x, x.sum(1), batch_size=8, epochs=8, callbacks=[callback], verbose=0)
    assert_judged(tmp_path / "run", caplog)
