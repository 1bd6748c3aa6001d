"""Keras on PyTorch: which visits of a shop end with a purchase, from three inputs by name.

The pages of a visit, numbers of the visit, and the country; few visits end with a purchase.
The skill is that of the ranking in a third set (twice the area under the ROC curve, less one).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, ranking_skill

from benchmarks.detection.case import cases

PAGES, COUNTRIES, LENGTH = 20, 6, 12
Rows = dict[str, Any]


def visits(count: int, seed: int) -> tuple[Rows, Any]:
    draw = np.random.default_rng(seed)
    interest = np.random.default_rng(9).normal(0, 1.2, PAGES)
    length = draw.integers(2, LENGTH + 1, count)
    taste = draw.normal(size=(count, 1))
    chosen = (
        (taste * interest + draw.gumbel(size=(count, LENGTH, PAGES)).swapaxes(0, 1)).argmax(2).T
    )
    pages = np.where(np.arange(LENGTH) < length[:, None], chosen + 1, 0)
    seen = np.where(pages > 0, interest[pages - 1], 0).mean(1)
    country = draw.integers(COUNTRIES, size=count)
    seconds, basket = draw.lognormal(4, 0.8, count), draw.gamma(1.2, 30, count)
    visits_before, weekend = draw.poisson(1.5, count), draw.integers(2, size=count)
    score = (
        7.0 * seen
        + 2.2 * np.log1p(basket / 20)
        + 0.9 * (np.log(seconds) - 4)
        + 0.8 * np.minimum(visits_before, 3)
        + np.array([0.0, 1.0, -1.2, 0.5, -0.5, 1.5])[country]
    )
    bought = score + 0.8 * draw.logistic(size=count) > 6.6
    numbers = np.stack([seconds, basket, visits_before, weekend], 1)
    return {"pages": pages, "numbers": numbers, "country": country[:, None]}, bought.astype(int)


def build(keras: Any, kind: str, dropout: float, fault: str) -> Any:
    layers = keras.layers
    pages = keras.Input((LENGTH,), name="pages", dtype="int32")
    numbers = keras.Input((4,), name="numbers")
    country = keras.Input((1,), name="country", dtype="int32")
    h = layers.Embedding(PAGES + 1, 8)(pages)
    if kind == "convolution":
        h = layers.GlobalMaxPooling1D()(layers.Conv1D(16, 3, activation="relu")(h))
    else:
        h = layers.GlobalAveragePooling1D()(h)
    home = layers.Flatten()(layers.Embedding(COUNTRIES, 4)(country))
    h = layers.Concatenate()([h, numbers, home])
    for _ in range(2):
        h = layers.Dense(32, activation="relu")(h)
        h = layers.BatchNormalization()(h) if kind == "normalised" else h
        h = layers.Dropout(dropout)(h) if dropout else h
    ends: dict[str, Any] = {
        "softmax of one": lambda: layers.Dense(1, activation="softmax"),
        "relu at the end": lambda: layers.Dense(1, activation="relu"),
    }
    end = ends.get(fault, lambda: layers.Dense(1, activation="sigmoid"))()
    return keras.Model({"pages": pages, "numbers": numbers, "country": country}, end(h))


def train(
    seed: int, hook: Any, kind: str = "", rate: float = 3e-3, epochs: int = 10, batch: int = 64,
    optimizer: str = "Adam", dropout: float = 0.0, balanced: bool = True, loss: str = "",
    smoothing: float = 0.0, stop: bool = False, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    (x, y), (held, held_y), (test, test_y) = (
        visits(count, seed + 8800 + n) for n, count in enumerate((3000, 800, 2000))
    )
    middle, spread = x["numbers"].mean(0), x["numbers"].std(0)
    for rows in (x, held, test):
        if fault != "numbers as they are":
            rows["numbers"] = (rows["numbers"] - middle) / spread
    if fault == "labels shuffled by themselves":
        order = np.random.default_rng(seed).permutation(len(y))
        y = y[order]
    if fault == "pages of a new dictionary":
        other = np.concatenate([[0], 1 + np.random.default_rng(seed).permutation(PAGES)])
        for rows in (held, test):
            rows["pages"] = other[rows["pages"]]
            rows["country"] = (rows["country"] + 2) % COUNTRIES
    model = build(keras, kind, dropout, fault)
    crossentropy = keras.losses.BinaryCrossentropy(label_smoothing=smoothing)
    model.compile(
        optimizer=getattr(keras.optimizers, optimizer)(learning_rate=rate),
        loss=keras.losses.BinaryFocalCrossentropy() if loss == "focal" else crossentropy,
        metrics=[keras.metrics.AUC(name="auc")],
    )
    ones = y.mean()
    weights = {0: 0.5 / (1 - ones), 1: 0.5 / ones} if balanced else None
    if fault == "weight of the other class alone":
        weights = {0: 1.0, 1: 0.0}
    callbacks: list[Any] = [hook.keras()]
    if stop:
        callbacks.append(keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True))
    model.fit(
        x, y, batch_size=batch, epochs=epochs, validation_data=(held, held_y),
        validation_batch_size=400, class_weight=weights, callbacks=callbacks, verbose=0,
    )  # fmt: skip
    found = model.predict(test, batch_size=500, verbose=0)[:, 0]
    return ranking_skill(torch.as_tensor(found).double(), torch.as_tensor(test_y))


CASES = cases(
    "keras buyers",
    train,
    {
        "plain": {},
        "convolution over pages": {"kind": "convolution"},
        "no weights, focal loss": {"balanced": False, "loss": "focal"},
        "batch norm and dropout": {"kind": "normalised", "dropout": 0.2},
        "smoothed labels, ended early": {"smoothing": 0.1, "stop": True, "epochs": 14},
    },
    {
        "softmax of one": ("softmax-axis no-skill probabilities", {"fault": "softmax of one"}),
        "numbers as they are": (
            "inputs slow fast no-skill",
            {"fault": "numbers as they are", "optimizer": "SGD", "rate": 1e-2},
        ),
        "labels shuffled by themselves": (
            "no-skill overfit",
            {"fault": "labels shuffled by themselves"},
        ),
        "weight of the other class alone": (
            "imbalance ignored collapse no-skill",
            {"fault": "weight of the other class alone"},
        ),
        "pages of a new dictionary": ("inputs overfit", {"fault": "pages of a new dictionary"}),
    },
)
