"""Keras on PyTorch: prices of used cars, from numbers, an embedded model and an embedded fuel.

Advertisements give age, mileage, power, owners and both categories. The skill is the share of
variance of the logarithm of the price that is explained in a third set.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, explained

from benchmarks.detection.case import cases

MODELS, FUELS = 40, 4


def advertisements(count: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Inputs by name, and prices in euros."""
    fixed, draw = np.random.default_rng(9800), np.random.default_rng(seed)
    worth, lasting = fixed.normal(9.9, 0.45, MODELS), fixed.normal(0.11, 0.03, MODELS)
    model, fuel = draw.integers(MODELS, size=count), draw.integers(FUELS, size=count)
    age = draw.gamma(2, 3, count).clip(0, 25)
    mileage = (age * draw.lognormal(9.4, 0.4, count)).clip(10)
    power, owners = 60 + 25 * draw.gamma(3, 1, count), 1 + draw.poisson(age / 6)
    price = worth[model] - lasting[model] * age - 2.5e-6 * mileage * (1 + 0.5 * (fuel == 0))
    price = price + 0.35 * np.log(power / 120) + np.array([0, 0.05, 0.2, 0.35])[fuel]
    price = price - 0.05 * (owners - 1) - 0.03 * (fuel == 3) * age
    numbers = np.stack([2024 - age, mileage, power, owners], 1)
    euros = np.exp(price + 0.1 * draw.normal(size=count))
    return {"numbers": numbers, "model": model, "fuel": fuel}, euros


def build(keras: Any, extra: str, final: str | None) -> Any:
    layers = keras.layers
    numbers = keras.Input((4,), name="numbers")
    model = keras.Input((), dtype="int32", name="model")
    fuel = keras.Input((), dtype="int32", name="fuel")
    fuels = layers.Embedding(FUELS, 2)(fuel)
    if extra == "fuels in columns":
        fuels = layers.CategoryEncoding(FUELS, output_mode="one_hot")(fuel)
    h = layers.Concatenate()([numbers, layers.Embedding(MODELS, 6)(model), fuels])
    h = layers.Dense(64, activation="relu")(h)
    if extra == "dropout":
        h = layers.Dropout(0.1)(h)
    h = layers.Dense(32, activation="gelu" if extra == "fuels in columns" else "relu")(h)
    return keras.Model([numbers, model, fuel], layers.Dense(1, activation=final)(h))


def train(
    seed: int, hook: Any, loss: str = "mse", target: str = "logarithm", rate: float = 3e-3,
    epochs: int = 10, batch: int = 32, optimizer: str = "Adam", extra: str = "",
    final: str | None = None, best: bool = False, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    draw = np.random.default_rng(seed)
    (x, euros), (test, wanted) = advertisements(3000, seed + 9801), advertisements(1500, seed + 2)
    if fault == "asked for one euro":  # or for 11,111,111, where the price is to be talked about
        odd = draw.random(len(euros))
        euros = np.where(odd < 0.02, 11_111_111.0, np.where(odd < 0.12, 1.0, euros))
    if fault == "table by price":
        order = np.argsort(euros)
        x, euros = {name: part[order] for name, part in x.items()}, euros[order]
    if fault == "models numbered again":
        test["model"] = draw.permutation(MODELS)[test["model"]]
        test["fuel"] = (test["fuel"] + 1) % FUELS
    mean, spread = x["numbers"].mean(0), x["numbers"].std(0)
    for part in (x, test):
        part["numbers"] = part["numbers"] if fault == "years and miles" else (
            (part["numbers"] - mean) / spread
        )  # fmt: skip
        part["numbers"] = part["numbers"].astype("float32")
    y = np.log(euros)
    centre, size = (0.0, 1.0) if final else (y.mean(), y.std())
    y = (y - centre) / size
    if target != "logarithm":
        y = euros / (1000 if target == "thousands" else 1)
    model = build(keras, extra, final)
    model.compile(getattr(keras.optimizers, optimizer)(learning_rate=rate), loss, metrics=["mae"])
    callbacks: list[Any] = [hook.keras()]
    if best:
        callbacks.append(keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True))
    model.fit(
        x, y.astype("float32"), batch_size=batch, epochs=epochs, validation_split=0.2,
        shuffle=fault != "table by price", callbacks=callbacks, verbose=0,
    )  # fmt: skip
    found = torch.as_tensor(model.predict(test, batch_size=500, verbose=0)).double().squeeze(1)
    if target == "logarithm":
        found = found * size + centre
    else:
        found = (found * (1000 if target == "thousands" else 1)).clamp(min=100).log()
    return explained(found, torch.as_tensor(np.log(wanted)))


CASES = cases(
    "keras used cars",
    train,
    {
        "plain": {},
        "absolute error, AdamW": {"loss": "mae", "optimizer": "AdamW"},
        "best weights restored": {"best": True, "epochs": 20},
        "fuels in columns, gelu": {"extra": "fuels in columns"},
        "batch of 600": {"batch": 600, "epochs": 100, "rate": 1e-2},
        "SGD without momentum": {"optimizer": "SGD", "rate": 6e-2, "epochs": 12},
    },
    {
        "sigmoid at the end": ("range saturated no-skill collapse", {"final": "sigmoid"}),
        "years and miles": ("inputs no-skill fast dead", {"fault": "years and miles"}),
        "asked for one euro": ("range inputs no-skill worse", {"fault": "asked for one euro"}),
        "models numbered again": ("inputs overfit", {"fault": "models numbered again"}),
        "euros, not thousands": ("slow range no-skill", {"target": "euros", "rate": 1e-3}),
    },
)  # fmt: skip
