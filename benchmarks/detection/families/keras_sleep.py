"""Keras on PyTorch: which stage each part of a sleep is of, by a GRU over parts that are padded.

A made-up sleep has 8 to 16 parts with movement, heart rate, breath and temperature, in one of four
stages that last a while. Padding is -9, masked, and has no weight. The skill is the accuracy over
the parts of other sleeps, above the most frequent stage.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, class_skill
from numpy.typing import NDArray

from benchmarks.detection.case import cases

LENGTH, STAGES, GAP = 16, 4, -9.0
Array = NDArray[Any]


def sleeps(count: int, seed: int) -> tuple[Array, Array, Array]:
    """Readings (count, LENGTH, 4), stages (count, LENGTH), and 1 where there is a part."""
    draw = np.random.default_rng(seed)
    changes = draw.random((count, LENGTH)) < 0.25
    since = np.maximum.accumulate(np.where(changes, np.arange(LENGTH), 0), 1)
    stage = np.take_along_axis(draw.integers(STAGES, size=(count, LENGTH)), since, 1)
    usual = np.array([[8, 75, 16, 36.6], [3, 64, 15, 36.5], [1, 55, 13, 36.2], [1, 68, 18, 36.3]])
    noise = np.array([2.5, 4.0, 1.2, 0.12])
    person = 0.5 * noise * draw.standard_normal((count, 1, 4))
    x = usual[stage] + person + noise * draw.standard_normal((count, LENGTH, 4))
    real = np.arange(LENGTH) < draw.integers(8, LENGTH + 1, (count, 1))
    return x, stage, real.astype("float32")


def train(
    seed: int, hook: Any, rate: float = 1e-2, epochs: int = 8, batch: int = 32,
    optimizer: str = "Adam", loss: str = "", count: int = 1000, dropout: float = 0.0,
    kind: str = "GRU", activation: str = "tanh", ending: str = "softmax", callback: str = "",
    clip: float | None = None, wrong: float = 0.0, evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    layers, ops = keras.layers, keras.ops
    draw = np.random.default_rng(seed)
    (x, y, real), held, test = (sleeps(n, seed + 9100 + n) for n in (count, 150, 400))
    middle, spread = x[real > 0].mean(0), x[real > 0].std(0)

    def ready(readings: Array, weights: Array, later: bool = False) -> Array:
        raw = later and fault == "later not scaled"
        scaled = readings if raw else (readings - middle) / spread
        return np.where(weights[..., None] > 0, scaled, GAP).astype("float32")

    if fault == "stages of other sleeps":
        y = y[draw.permutation(count)]
    if wrong:
        y = np.where(draw.random(y.shape) < wrong, draw.integers(STAGES, size=y.shape), y)
    weights = 1 - real if fault == "weights of the padding" else real
    recurrent = getattr(layers, kind)(
        16, activation=activation, return_sequences=True, dropout=dropout
    )
    model = keras.Sequential([keras.Input((LENGTH, 4)), layers.Masking(GAP), recurrent])
    if ending == "softmax over time":
        model.add(layers.TimeDistributed(layers.Dense(STAGES)))
        model.add(layers.Softmax(axis=1))
    else:
        model.add(layers.TimeDistributed(layers.Dense(STAGES, activation=ending)))

    def focal(true: Any, found: Any) -> Any:
        right = ops.sum(ops.one_hot(ops.cast(true, "int32"), STAGES) * found, -1)
        return -((1 - right) ** 2) * ops.log(right + 1e-7)

    chosen: Any = focal if loss == "focal" else "sparse_categorical_crossentropy"
    if loss == "logits":
        chosen = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    settings = {} if clip is None else {"clipnorm": clip}
    model.compile(getattr(keras.optimizers, optimizer)(learning_rate=rate, **settings), chosen)
    callbacks: list[Any] = [hook.keras()]
    if callback == "plateau":
        watched = "val_loss" if evaluated else "loss"
        callbacks.append(keras.callbacks.ReduceLROnPlateau(watched, patience=1, factor=0.5))
    model.fit(
        ready(x, real), y, sample_weight=weights, batch_size=min(batch, count), epochs=epochs,
        validation_data=(ready(held[0], held[2], True), held[1], held[2]) if evaluated else None,
        callbacks=callbacks, verbose=0, validation_batch_size=150,
    )  # fmt: skip
    given = ready(test[0], test[2], True)
    found = torch.tensor(np.array(model.predict(given, batch_size=200, verbose=0)))
    kept = torch.tensor(test[2]) > 0
    return class_skill(found[kept], torch.tensor(test[1])[kept])


CASES = cases(
    "Keras sleep",
    train,
    {
        "plain": {},
        "focal loss": {"loss": "focal", "epochs": 10},
        "scores for the loss": {"ending": "linear", "loss": "logits"},
        "clipped descent with plateaus": {
            "optimizer": "SGD",
            "rate": 0.5,
            "clip": 1.0,
            "callback": "plateau",
            "epochs": 10,
        },
        "plain recurrent network, wrong stages": {"kind": "SimpleRNN", "wrong": 0.1},
        "small batches without evaluation": {"batch": 12, "epochs": 3, "evaluated": False},
    },
    {
        "softmax over time": ("softmax-axis no-skill", {"ending": "softmax over time"}),
        "stages of other sleeps": ("no-skill overfit", {"fault": "stages of other sleeps"}),
        "weights of the padding": ("ignored no-skill", {"fault": "weights of the padding"}),
        "later not scaled": ("inputs overfit", {"fault": "later not scaled"}),
        "three sleeps": ("overfit", {"count": 3, "epochs": 120}),
    },
)
