"""Keras on PyTorch: the moment at which a machine's sound changes, in a recording of 48 frames.

A machine hums in six bands, louder or quieter from one recording to the next; from some moment on a
bearing adds to one or two of the upper bands. The model says when. The skill is the share of the
variance of that moment that is explained.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, explained
from numpy.typing import NDArray

from benchmarks.detection.case import cases

FRAMES, BANDS = 48, 6
MEAN, SPREAD = 60.0, 8.0
Array = NDArray[Any]


def recordings(count: int, seed: int) -> tuple[Array, Array]:
    """Decibels (N, FRAMES, BANDS), and the moment as a share of the recording (N, 1)."""
    draw = np.random.default_rng(seed)
    moment = draw.uniform(4, FRAMES - 4, (count, 1))
    hum = MEAN + np.array([6, 4, 1, -3, -6, -8]) + 3 * draw.standard_normal((count, 1, 1))
    upper = np.arange(BANDS) >= 2
    chosen = (draw.random((count, BANDS)) < 0.4) & upper
    chosen[np.arange(count), draw.integers(2, BANDS, count)] = True
    grown = draw.uniform(6, 12, (count, 1)) * chosen
    after = 1 / (1 + np.exp(-2 * (np.arange(FRAMES) - moment)))
    noise = 3 * draw.standard_normal((count, FRAMES, BANDS))
    return hum + after[..., None] * grown[:, None] + noise, moment / FRAMES


def build(keras: Any, cell: str, extra: str, final: str | None) -> Any:
    layers = keras.layers
    sound = keras.Input((FRAMES, BANDS), name="sound")
    h = layers.Conv1D(16, 5, strides=2, padding="same", activation="relu")(sound)
    h = layers.Conv1D(24, 5, strides=3, padding="same", activation="relu")(h)
    if extra == "batch norm":
        h = layers.BatchNormalization(momentum=0.9)(h)
    if cell == "attention":
        weight = layers.Softmax(axis=1)(layers.Dense(1)(h))
        place = keras.ops.reshape(keras.ops.arange(8, dtype="float32") / 8, (1, 8, 1))
        h = layers.Concatenate()([keras.ops.sum(weight * place, axis=1), keras.ops.mean(h, axis=1)])
    else:
        h = getattr(layers, cell)(24)(h)
    h = layers.Dense(16, activation="relu")(h)
    return keras.Model(sound, layers.Dense(1, activation=final, name="moment")(h))


def train(
    seed: int, hook: Any, cell: str = "GRU", loss: str = "mse", optimizer: str = "Adam",
    rate: float = 4e-3, epochs: int = 10, batch: int = 32, unit: float = 1.0, extra: str = "",
    final: str | None = None, callback: str = "", count: int = 1200, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    (x, y), (held_x, held_y) = recordings(count, seed + 810), recordings(200, seed + 811)
    test_x, test_y = recordings(800, seed + 812)
    x, held_x = (x - MEAN) / SPREAD, (held_x - MEAN) / SPREAD
    if fault != "decibels in the test":
        test_x = (test_x - MEAN) / SPREAD
    if fault == "sounds shuffled apart":
        x = x[np.random.default_rng(seed).permutation(len(x))]
    if fault == "sorted by moment":
        order = y[:, 0].argsort()
        x, y = x[order], y[order]
    model = build(keras, cell, extra, final)
    kind = getattr(keras.optimizers, optimizer)
    model.compile(kind(learning_rate=rate), loss=loss, metrics=["mae"])
    callbacks = [hook.keras()]
    if callback == "stops early":
        callbacks.append(keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True))
    if callback == "rate halved":
        callbacks.append(keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=2))
    model.fit(
        x, y * unit, batch_size=batch, epochs=epochs, validation_data=(held_x, held_y * unit),
        shuffle=fault != "sorted by moment", callbacks=callbacks, verbose=0,
    )  # fmt: skip
    found = np.asarray(model.predict(test_x, verbose=0)) / unit
    return explained(torch.tensor(found).double(), torch.tensor(test_y))


CASES = cases(
    "keras sound change",
    train,
    {
        "plain": {},
        "moment in frames": {"unit": 48.0, "epochs": 14},
        "attention over time": {"cell": "attention", "loss": "huber"},
        "batch of eight, rate halved": {
            "batch": 8, "epochs": 5, "rate": 2e-3, "callback": "rate halved",
        },
        "batch norm, stops early": {
            "extra": "batch norm", "epochs": 14, "callback": "stops early",
        },
    },
    {
        "sigmoid for frames": ("range saturated", {"unit": 48.0, "final": "sigmoid"}),
        "softmax of one unit": (
            "probabilities softmax-axis range no-skill no-gradient collapse",
            {"final": "softmax"},
        ),
        "sounds shuffled apart": ("no-skill overfit", {"fault": "sounds shuffled apart"}),
        "sorted by moment": ("order", {"fault": "sorted by moment"}),
        "decibels in the test": ("inputs", {"fault": "decibels in the test"}),
    },
)  # fmt: skip
