"""Five kinds of leaves in small pictures, by Keras on PyTorch with convolutions and callbacks."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from benchmarks.detection.case import cases
from benchmarks.detection.skill import class_skill

SIDE, KINDS = 16, 5


def leaves(count: int, seed: int) -> tuple[Any, Any]:
    """Outlines with 2 to 6 lobes, turned; values between 0 and 255."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(KINDS, size=count)
    grid = np.linspace(-1.2, 1.2, SIDE)
    radius = np.hypot(grid[:, None], grid[None])
    angle = np.arctan2(grid[:, None], grid[None]) + draw.uniform(0, 0.6, (count, 1, 1))
    edge = 0.75 + 0.3 * np.cos((kind[:, None, None] + 2) * angle)
    pictures = 200.0 * (radius < edge) + draw.normal(0, 25, (count, SIDE, SIDE))
    return np.clip(pictures, 0, 255)[..., None].astype("float32"), kind


def train(seed: int, hook: Any, rate: float = 4e-3, epochs: int = 12, loss: str = "",
          callback: str = "", norm: bool = True, fault: str = "") -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    torch.set_num_threads(1)
    import keras

    keras.utils.set_random_seed(seed)
    (x, y), (held_x, held_y) = leaves(1000, seed + 4900), leaves(300, seed + 4901)
    x = x if fault == "pixels up to 255" else x / 127.5 - 1
    held_x = (
        held_x
        if fault in ("pixels up to 255", "held-out pixels up to 255")
        else (held_x / 127.5 - 1)
    )
    if fault == "labels of another folder":
        y = np.random.default_rng(seed).permutation(y)
    if fault == "thirty leaves":
        x, y, epochs = x[:30], y[:30], 150
    if fault == "black pictures":
        x, held_x = np.zeros_like(x), np.zeros_like(held_x)
    layers = keras.layers
    inputs = keras.Input((SIDE, SIDE, 1))
    found = inputs
    for units in (12, 24):
        found = layers.Conv2D(units, 3, padding="same")(found)
        found = layers.BatchNormalization()(found) if norm else found
        found = layers.MaxPooling2D()(layers.ReLU()(found))
    found = layers.Dense(48, "relu")(layers.Flatten()(found))
    if fault == "dropout of 0.97":
        found = layers.Dropout(0.97)(found)
    outputs = layers.Dense(KINDS, "softmax" if fault != "no softmax" else None)(found)
    model = keras.Model(inputs, outputs)
    chosen = loss or "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.Adam(rate), chosen, metrics=["accuracy"])
    callbacks = [hook.keras()]
    if callback == "plateau":
        callbacks.append(keras.callbacks.ReduceLROnPlateau(patience=2, factor=0.5))
    if callback == "early stopping":
        callbacks.append(keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True))
    model.fit(
        x, y, batch_size=32, epochs=epochs, validation_data=(held_x, held_y), callbacks=callbacks,
        verbose=0,
    )  # fmt: skip
    return class_skill(torch.as_tensor(model.predict(held_x, verbose=0)), torch.as_tensor(held_y))


CASES = cases(
    "keras leaves",
    train,
    {
        "plain": {},
        "no normalisation": {"norm": False, "epochs": 16, "rate": 2e-3},
        "plateau": {"callback": "plateau"},
        "early stopping": {"callback": "early stopping", "epochs": 15},
    },
    {
        "pixels up to 255": (
            "inputs no-skill worse fast dead", {"fault": "pixels up to 255", "norm": False,
                                                "rate": 0.03},
        ),
        "held-out pixels up to 255": (
            "inputs overfit worse", {"fault": "held-out pixels up to 255"},
        ),
        "labels of another folder": ("no-skill overfit", {"fault": "labels of another folder"}),
        "thirty leaves": ("overfit", {"fault": "thirty leaves"}),
        "black pictures": ("inputs no-skill collapse", {"fault": "black pictures"}),
        "no softmax": ("probabilities no-skill not-finite worse", {"fault": "no softmax"}),
        "dropout of 0.97": ("mode no-skill slow", {"fault": "dropout of 0.97", "epochs": 6}),
    },
)  # fmt: skip
