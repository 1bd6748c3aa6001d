"""Keras on PyTorch: whether a blood donor comes again within a year, by fit on a table of donors.

Months since the last and the first gift, gifts, millilitres, year of birth, metres to the centre,
haemoglobin and the answer to the last letter are known. The skill is twice the area under the ROC
curve, less one, of other donors.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, ranking_skill
from numpy.typing import NDArray

from benchmarks.detection.case import cases

Array = NDArray[Any]


def donors(count: int, seed: int, sharp: float = 6.0) -> tuple[Array, Array]:
    """Eight columns in their own units, and whether each came again: about one in three."""
    draw = np.random.default_rng(seed)
    first = draw.gamma(2.0, 25.0, count) + 2
    gifts = 1 + draw.poisson(first / 9)
    last = np.minimum(draw.exponential(first / gifts + 2), first)
    born = draw.normal(1979, 13, count).clip(1950, 2005).round()
    metres = draw.lognormal(8.3, 0.9, count)
    haemoglobin = draw.normal(14.2, 1.2, count)
    answered = (draw.random(count) < 0.4).astype(float)
    wish = 0.9 * np.log(gifts) - 0.09 * last - 0.25 * np.log(metres / 4000) + 0.7 * answered
    wish = wish - 0.0012 * (born - 1982) ** 2 - 0.9 * (haemoglobin < 12.8) - 0.45
    again = draw.random(count) < 1 / (1 + np.exp(-sharp * wish))
    litres = 450.0 * gifts + draw.normal(0, 20, count)
    columns = (last, first, gifts, litres, born, metres, haemoglobin, answered)
    return np.stack(columns, 1).astype("float32"), again.astype("float32")


def build(keras: Any, final: str | None, extra: str, initial: str) -> Any:
    layers = keras.layers
    model = keras.Sequential([keras.Input((8,))])
    for units in (48, 24):
        model.add(layers.Dense(units, kernel_initializer=initial, use_bias=not extra))
        if extra:
            model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
        if extra:
            model.add(layers.Dropout(0.1))
    model.add(layers.Dense(1, activation=final, kernel_initializer=initial))
    return model


def train(
    seed: int, hook: Any, rate: Any = 2e-3, epochs: int = 16, batch: int = 32, count: int = 4000,
    optimizer: str = "Adam", more: Any = None, loss: str = "BinaryCrossentropy",
    settings: Any = None, final: str | None = "sigmoid", extra: str = "", plateaus: bool = False,
    cosine: bool = False, weighted: bool = False, initial: str = "glorot_uniform",
    validated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    (x, y), (held_x, held_y) = donors(count, 60 * seed + 6001), donors(800, 60 * seed + 6002)
    test_x, test_y = donors(2000, 60 * seed + 6003)
    if fault == "gaps of haemoglobin not filled":
        for of in (x, held_x, test_x):
            of[np.random.default_rng(seed).random(len(of)) < 0.03, 6] = np.nan
    mean, spread = np.nanmean(x, 0), np.nanstd(x, 0)
    if fault != "columns as they are":
        x, held_x = (x - mean) / spread, (held_x - mean) / spread
        test_x = test_x if fault == "asked without the scaler" else (test_x - mean) / spread

    model = build(keras, final, extra, initial)
    if cosine:
        total = epochs * count // batch
        rate = keras.optimizers.schedules.CosineDecay(
            0.0, total, warmup_target=rate, warmup_steps=total // 10
        )
    steering = getattr(keras.optimizers, optimizer)(learning_rate=rate, **(more or {}))
    model.compile(steering, getattr(keras.losses, loss)(**(settings or {})), metrics=["accuracy"])
    callbacks: list[Any] = [hook.keras()]
    if plateaus:
        callbacks.append(keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.3))
        callbacks.append(keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True))
    model.fit(
        x, y, batch_size=batch, epochs=epochs, callbacks=callbacks, verbose=0,
        validation_data=(held_x, held_y) if validated else None,
        class_weight={0: 1.0, 1: float((1 - y.mean()) / y.mean())} if weighted else None,
    )  # fmt: skip
    scores = torch.as_tensor(model.predict(test_x, batch_size=500, verbose=0)).double().squeeze(1)
    return ranking_skill(scores, torch.as_tensor(test_y))


CASES = cases(
    "keras donors",
    train,
    {
        "plain": {},
        "logits, smoothed": {
            "final": None, "settings": {"from_logits": True, "label_smoothing": 0.1},
        },
        "focal loss, weights of classes": {"loss": "BinaryFocalCrossentropy", "weighted": True},
        "batch normalised, dropout, not validated": {"extra": "both", "validated": False},
        "plateaus, best weights restored": {"plateaus": True, "rate": 1e-2, "batch": 64},
        "AdamW, warm-up and cosine": {"optimizer": "AdamW", "cosine": True, "rate": 5e-3},
        "weights averaged, four batches each": {
            "more": {"use_ema": True, "gradient_accumulation_steps": 4}, "rate": 6e-3,
        },
    },
    {
        "softmax of one unit": ("probabilities no-skill collapse", {"final": "softmax"}),
        "gaps of haemoglobin not filled": (
            "not-finite inputs",
            {
                "fault": "gaps of haemoglobin not filled", "final": None,
                "settings": {"from_logits": True},
            },
        ),
        "columns as they are": (
            "inputs no-skill fast dead collapse not-finite",
            {"fault": "columns as they are", "optimizer": "SGD", "rate": 1e-2},
        ),
        "asked without the scaler": ("inputs worse", {"fault": "asked without the scaler"}),
        "rate of 1": ("fast worse no-skill dead collapse", {"rate": 1.0}),
        "weights of zeros": ("no-skill dead collapse no-gradient", {"initial": "zeros"}),
    },
)  # fmt: skip
