"""Keras on PyTorch: scanned pages made clean, by a convolutional autoencoder from page to page.

Strokes of ink on paper; the scan is dim at one side, noisy, and has stains and folds. The network
is given the scan and gives the page. The skill is the share of the page's variance that it
explains, of other scans.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, explained
from numpy.typing import NDArray

from benchmarks.detection.case import cases

Array = NDArray[Any]
SIDE = 16


def pages(count: int, seed: int) -> tuple[Array, Array]:
    """Scans and pages in bytes, (N, SIDE, SIDE, 1); ink is dark."""
    draw = np.random.default_rng(seed)
    across = np.arange(SIDE)
    ink = np.zeros((count, SIDE, SIDE), bool)
    for _ in range(4):
        row, column = draw.integers(1, SIDE - 2, (2, count))
        long = draw.integers(3, 9, count)[:, None]
        bar = (across >= column[:, None]) & (across < column[:, None] + long)
        line = (across == row[:, None])[:, :, None] & bar[:, None, :]
        flat = draw.random(count) < 0.5
        ink |= np.where(flat[:, None, None], line, line.transpose(0, 2, 1))
    page = np.where(ink, 20.0, 235.0)
    light = draw.uniform(-6, 6, (count, 1, 1)) * (across - 8) + draw.uniform(-30, 10, (count, 1, 1))
    place = draw.uniform(0, SIDE, (2, count, 1, 1))
    far = (across[:, None] - place[0]) ** 2 + (across - place[1]) ** 2
    stain = -draw.uniform(30, 90, (count, 1, 1)) * (far < 14)
    fold = -70.0 * (across == draw.integers(0, SIDE, (count, 1, 1))) * np.ones((SIDE, 1))
    scan = 0.7 * page + light + stain + fold + draw.normal(0, 22, page.shape)
    return tuple(of.clip(0, 255).astype("uint8")[..., None] for of in (scan, page))


def network(keras: Any, final: str | None, narrow: bool) -> Any:
    """Convolutions; or a code at half the side and back, as an autoencoder has it."""
    layers = keras.layers
    seen = found = keras.Input((SIDE, SIDE, 1))
    for number, units in enumerate((12, 16, 12)):
        strides = 2 if narrow and number == 1 else 1
        found = layers.Conv2D(units, 3, strides, padding="same")(found)
        found = layers.ReLU()(found)
    if narrow:
        found = layers.UpSampling2D(2)(found)
        found = layers.Concatenate()([found, seen])
        found = layers.Conv2D(12, 3, padding="same", activation="relu")(found)
    found = layers.Conv2D(1, 3, padding="same", activation=final)(found)
    return keras.Model(seen, found)


def train(
    seed: int, hook: Any, rate: Any = 5e-3, epochs: int = 10, batch: int = 16, count: int = 1200,
    optimizer: str = "Adam", more: Any = None, loss: str = "mse", final: str | None = "sigmoid",
    narrow: bool = False, plateaus: bool = False, warm: bool = False,
    validated: bool = True, noise: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    (x, y), (held_x, held_y), (test_x, test_y) = (
        pages(n, 70 * seed + 7000 + n) for n in (count, 200, 400)
    )
    if fault == "names of files in another order":
        y = y[np.random.default_rng(seed).permutation(count)]
    x, y, held_x, held_y, test_y = (
        of.astype("float32") / 255 for of in (x, y, held_x, held_y, test_y)
    )
    test_x = test_x.astype("float32") / (1 if fault == "asked in bytes" else 255)
    if fault == "asked in bytes":
        held_x = held_x * 255
    if fault == "pages in bytes":
        y, held_y = y * 255, held_y * 255

    model = network(keras, final, narrow)
    if warm:
        steps = epochs * count // batch
        rate = keras.optimizers.schedules.CosineDecay(
            0.0, steps, warmup_target=rate, warmup_steps=steps // 5
        )
    steering = getattr(keras.optimizers, optimizer)(learning_rate=rate, **(more or {}))
    model.compile(optimizer=steering, loss=loss, metrics=["mae"])
    callbacks: list[Any] = [hook.keras()]
    if plateaus:
        callbacks.append(keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.5))
        callbacks.append(keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True))
    seen = x + noise * np.random.default_rng(seed).normal(0, 1, x.shape).astype("float32")
    model.fit(
        seen, seen if fault == "scan for page" else y, batch_size=batch, epochs=epochs,
        validation_data=(held_x, held_y) if validated else None, callbacks=callbacks, verbose=0,
    )  # fmt: skip
    found = torch.as_tensor(model.predict(test_x, batch_size=200, verbose=0)).cpu().double()
    return explained(found, torch.as_tensor(test_y).double())


CASES = cases(
    "keras scans",
    train,
    {
        "plain": {},
        "cross-entropy of shades": {"loss": "binary_crossentropy"},
        "absolute error, plateaus": {"loss": "mae", "plateaus": True},
        "linear, Huber": {"final": None, "loss": "huber", "batch": 12},
        "narrow code, AdamW, warm-up and cosine": {
            "narrow": True, "optimizer": "AdamW", "warm": True, "rate": 1e-2,
        },
        "momentum, clipped, not validated": {
            "optimizer": "SGD", "rate": 0.3, "validated": False, "loss": "binary_crossentropy",
            "more": {"momentum": 0.9, "global_clipnorm": 1.0},
        },
        "noise added, weights averaged": {"noise": 0.03, "more": {"use_ema": True}},
    },
    {
        "softmax of one channel": ("probabilities no-skill collapse", {"final": "softmax"}),
        "pages in bytes": ("range saturated no-skill", {"fault": "pages in bytes"}),
        "names of files in another order": (
            "no-skill collapse", {"fault": "names of files in another order"},
        ),
        "asked in bytes": ("inputs worse", {"fault": "asked in bytes"}),
        "rate of 1": ("fast no-skill dead collapse saturated", {"rate": 1.0}),
        "scan for page": ("no-skill worse leak", {"fault": "scan for page"}),
    },
)  # fmt: skip
