"""A script for smdebug's KerasHook, with ``tocsin.smdebug`` in its imports. smdebug's own hook does
not run with Keras 3: names and steps are those of its documentation.
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import tocsin.smdebug.tensorflow as smd
from tocsin import create_trial
from tocsin.smdebug.core.modes import ModeKeys

WEIGHTS = ["dense/weights/dense/kernel:0", "dense/weights/dense/bias:0"]


def model() -> keras.Model:
    return keras.Sequential([keras.layers.Dense(2, activation="relu", name="dense")])


def test_fit_with_an_evaluation_after_each_epoch(tmp_path: Path) -> None:
    hook = smd.KerasHook(
        out_dir=str(tmp_path / "run"),
        include_collections=[smd.CollectionKeys.WEIGHTS, "biases"],
        save_config={
            ModeKeys.TRAIN: smd.SaveConfigMode(save_interval=2),
            ModeKeys.EVAL: smd.SaveConfigMode(save_interval=1),
        },
    )
    network = model()
    network.compile(hook.wrap_optimizer(keras.optimizers.SGD(0.1)), "mse", metrics=["mae"])
    x, y = np.ones((20, 4), "float32"), np.ones((20, 2), "float32")
    network.fit(x, y, batch_size=5, epochs=2, callbacks=[hook], verbose=0, validation_data=(x, y))
    hook.save_scalar("final", 1.0)
    hook.close()
    trial = create_trial(tmp_path / "run")
    assert trial.steps(mode=smd.modes.TRAIN) == [0, 2, 4, 6]
    assert trial.steps(mode=smd.modes.EVAL)[:2] == [0, 1]
    assert {*WEIGHTS, "loss", "mae", "val_loss", "val_mae", "scalar/final"} <= set(
        trial.tensor_names()
    )
    assert trial.tensor_names(collection="losses") == ["loss", "val_loss"]
    assert trial.tensor(WEIGHTS[0]).value(0).shape == (4, 2)
    assert smd.get_hook() is hook


def test_what_has_no_counterpart_names_the_way() -> None:
    hook = smd.KerasHook("never written")
    for call in (lambda: hook.wrap_tape(None), smd.SessionHook, smd.EstimatorHook):
        with pytest.raises(NotImplementedError, match=r"loop\.md"):
            call()
