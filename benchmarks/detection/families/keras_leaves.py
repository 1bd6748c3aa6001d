"""Keras on PyTorch: photographs of leaves, 0 to 255, by a convolutional network with callbacks.

Leaves differ in their outline; they lie at any angle on grounds of any brightness, and the model
rescales the pictures itself. The skill is the accuracy, above chance.
"""

from __future__ import annotations

import math
import os
import tempfile
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, class_skill
from numpy.typing import NDArray

from benchmarks.detection.case import cases

SIDE, KINDS = 16, 5
Array = NDArray[Any]


def leaves(count: int, seed: int, uneven: bool = False) -> tuple[Array, Array]:
    """(count, SIDE, SIDE, 3) in bytes, and their kinds."""
    draw = np.random.default_rng(seed)
    share = np.array([8, 4, 4, 2, 2]) if uneven else np.ones(KINDS)
    kind = draw.choice(KINDS, count, p=share / share.sum())
    across, down = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    at = draw.uniform(6, 9, (2, count, 1, 1))
    x, y = across - at[0], down - at[1]
    turn = draw.uniform(-math.pi, math.pi, (count, 1, 1))
    angle, radius = np.arctan2(y, x) - turn, np.hypot(x, y)
    lobes = np.array([0, 2, 3, 4, 5])[kind][:, None, None]
    edge = draw.uniform(4.2, 5.6, (count, 1, 1)) * (1 + 0.4 * np.cos(lobes * angle))
    inside = 1 / (1 + np.exp(-2.5 * (edge - radius)))
    ground = draw.uniform(90, 200, (count, 1, 1, 3))
    leaf = np.array([40.0, 100, 30]) + draw.normal(0, 15, (count, 1, 1, 3))
    picture = ground + inside[..., None] * (leaf - ground)
    picture = picture + draw.normal(0, 12, picture.shape)
    return picture.clip(0, 255).astype("uint8"), kind.astype("int32")


def build(keras: Any, style: str) -> Any:
    layers = keras.layers
    enter = keras.Input((SIDE, SIDE, 3))
    h = enter
    if style == "augmented":
        h = layers.RandomFlip()(h)
    if style == "normalised":
        h = layers.Normalization(mean=[120.0] * 3, variance=[3000.0] * 3)(h)
    else:
        h = layers.Rescaling(1 / 127.5, offset=-1)(h)
    for filters in (16, 24):
        if style == "separable":
            h = layers.SeparableConv2D(2 * filters, 3, padding="same", use_bias=False)(h)
        else:
            h = layers.Conv2D(filters, 3, padding="same", use_bias=style == "no norm")(h)
        if style != "no norm":
            h = layers.BatchNormalization(momentum=0.9)(h)
        h = layers.ReLU()(h)
        h = layers.MaxPooling2D()(h)
    h = layers.Flatten()(h)
    if style == "dropout":
        h = layers.SpatialDropout1D(0.1)(layers.Reshape((16, 24))(h))
        h = layers.Flatten()(h)
    h = layers.Dense(48, activation="relu")(h)
    last = None if style == "scores" else "softmax"
    return keras.Model(enter, layers.Dense(KINDS, activation=last)(h))


def train(
    seed: int, hook: Any, style: str = "", labels: str = "numbers", epochs: int = 10,
    rate: float = 2e-3, optimizer: str = "Adam", count: int = 2000, batch: int = 32,
    uneven: bool = False, callbacks: tuple[str, ...] = ("plateau", "stop"), smoothing: float = 0.0,
    fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    x, y = leaves(count, seed + 700, uneven)
    held_x, held_y = leaves(400, 701, uneven)
    test_x, test_y = leaves(1500, 702, uneven)
    shares = np.bincount(y, minlength=KINDS) / len(y)
    if fault == "sorted by kind":
        rows = np.argsort(y, kind="stable")
        x, y = x[rows], y[rows]
    if fault == "divided by 255 as well":
        test_x, held_x = test_x / 255.0, held_x / 255.0
    model = build(keras, style)
    how: Any = "sparse_categorical_crossentropy"
    if style == "scores":
        how = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if labels == "one-hot":
        y, held_y = keras.utils.to_categorical(y, KINDS), keras.utils.to_categorical(held_y, KINDS)
        how = keras.losses.CategoricalCrossentropy(label_smoothing=smoothing)
    planned: Any = rate
    if "cosine" in callbacks:
        planned = keras.optimizers.schedules.CosineDecayRestarts(rate, 3 * count // batch)
    extra = {"momentum": 0.9} if optimizer == "SGD" else {}
    model.compile(getattr(keras.optimizers, optimizer)(planned, **extra), how, metrics=["accuracy"])
    folder = tempfile.TemporaryDirectory()
    best = f"{folder.name}/best.weights.h5"
    chosen: dict[str, Any] = {
        "plateau": lambda: keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=2),
        "stop": lambda: keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True),
        "checkpoint": lambda: keras.callbacks.ModelCheckpoint(
            best, save_best_only=True, save_weights_only=True
        ),
    }
    used = [chosen[name]() for name in callbacks if name in chosen]
    model.fit(
        x, y, batch_size=batch, epochs=epochs, verbose=0, shuffle=fault != "sorted by kind",
        validation_data=(held_x, held_y), validation_batch_size=200,
        callbacks=[*used, hook.keras()],
        class_weight={k: 1 / (KINDS * share) for k, share in enumerate(shares)} if uneven else None,
    )  # fmt: skip
    if "checkpoint" in callbacks:
        model.load_weights(best)
    folder.cleanup()
    found = np.asarray(model.predict(test_x, batch_size=250, verbose=0))
    return class_skill(torch.as_tensor(found), torch.as_tensor(test_y).long())


CASES = cases(
    "keras leaves",
    train,
    {
        "plain": {},
        "normalised, no callbacks": {"style": "normalised", "callbacks": ()},
        "scores": {"style": "scores", "batch": 16, "epochs": 7},
        "one-hot, smoothed": {"labels": "one-hot", "smoothing": 0.1},
        "best checkpoint": {"callbacks": ("checkpoint", "plateau"), "rate": 4e-3},
        "restarts with SGD": {"callbacks": ("cosine",), "optimizer": "SGD", "rate": 3e-2},
        "flipped at random": {"style": "augmented", "epochs": 12},
        "rare leaves weigh more": {"uneven": True},
        "channels dropped": {"style": "dropout", "epochs": 12},
    },
    {
        "divided by 255 as well": ("inputs overfit", {"fault": "divided by 255 as well"}),
        "sorted by kind": ("order overfit", {"fault": "sorted by kind"}),
    },
)
