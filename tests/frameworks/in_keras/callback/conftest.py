"""Small models and data, and what a run holds of them."""

from __future__ import annotations

import logging

import keras
import numpy as np
import pytest
from tocsin import create_trial, modes
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks.keras import TocsinCallback

RAW = Capture(
    collections={
        name: CollectionConfig(save_raw_tensor=True) for name in ("weights", "biases", "gradients")
    }
)


@pytest.fixture(scope="session")
def data():
    """50 samples of 8 numbers, in 3 classes."""
    random = np.random.default_rng(0)
    return random.standard_normal((50, 8)).astype(np.float32), random.integers(0, 3, 50)


@pytest.fixture
def make():
    """A compiled classifier; every one of the same options begins with the same weights."""

    def model(optimizer="adam", metrics=("accuracy",), **options):
        keras.utils.set_random_seed(7)
        made = keras.Sequential(
            [
                keras.Input((8,)),
                keras.layers.Dense(6, "relu", name="hidden"),
                keras.layers.Dense(3, name="out"),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metrics = [each() if isinstance(each, type) else each for each in metrics]
        made.compile(keras.optimizers.get(optimizer), loss, metrics=metrics, **options)
        return made

    return model


@pytest.fixture
def callback(tmp_path):
    """A callback that saves every step in full, however long that takes."""

    def made(out=tmp_path / "run", save_interval=1, **options):
        options = {"capture": RAW, "max_overhead": None, **options}
        return TocsinCallback(out, save_interval=save_interval, **options)

    return made


@pytest.fixture
def trial(tmp_path):
    return lambda: create_trial(tmp_path / "run")


@pytest.fixture
def series(trial):
    """The values of a tensor, by step of its mode."""

    def values(name, mode=modes.TRAIN):
        tensor = trial().tensor(name)
        return {step: np.squeeze(tensor.value(step, mode=mode)) for step in tensor.steps(mode)}

    return values


@pytest.fixture(autouse=True)
def no_trouble(caplog):
    """Nothing goes wrong in silence: the hook logs what it could not capture."""
    with caplog.at_level(logging.INFO, logger="tocsin"):
        yield
    assert [each.message for each in caplog.records if "not captured" in each.message] == []
