"""Prices of flights, by Keras on PyTorch: a functional model with embeddings and numbers.

Airline and route are looked up, and days before departure, hour and stops are numbers; prices are
learned by their logarithm. The skill is the share of the variance of logarithms that is explained.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from benchmarks.detection.families.kit import begin

from benchmarks.detection.case import cases

AIRLINES, ROUTES = 12, 40
Table = dict[str, Any]


def flights(count: int, seed: int, noise: float = 0.1) -> tuple[Table, Any]:
    """Inputs by their name, and prices in an own currency, of about 150."""
    world, draw = np.random.default_rng(77), np.random.default_rng(seed)
    length, dear = world.normal(0, 0.5, ROUTES), world.normal(0, 0.25, AIRLINES)
    last_minute = world.normal(0.3, 0.15, AIRLINES)
    airline = draw.integers(AIRLINES, size=count)
    route = draw.choice(ROUTES, size=count, p=world.dirichlet(np.full(ROUTES, 2.0)))
    days, hour = draw.gamma(1.5, 20, count), draw.uniform(5, 23, count)
    stops = draw.choice(3, size=count, p=[0.6, 0.3, 0.1])
    price = 5 + length[route] + dear[airline] + last_minute[airline] * np.exp(-days / 15) * 2
    price = price + 0.12 * np.cos((hour - 9) / 24 * 4 * np.pi) - 0.2 * stops * (1 + length[route])
    price = price + noise * draw.normal(size=count)
    numbers = np.stack([days, hour, stops], 1).astype("float32")
    return {"airline": airline, "route": route, "numbers": numbers}, np.exp(price).astype("float32")


def train(
    seed: int, hook: Any, epochs: int = 12, batch: int = 64, rate: float = 5e-3, loss: str = "mse",
    optimizer: str = "adam", schedule: str = "", weights: str = "", dropout: float = 0.0,
    normalise: str = "layer", count: int = 4000, last: str | None = None, noise: float = 0.1,
    validated: bool = True, patience: int = 0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    from keras import layers

    keras.utils.set_random_seed(seed)

    class WarmUpThenRoot(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        """The own schedule of the first transformer: linear, then by the root of the step."""

        def __init__(self, highest: float, warm: int) -> None:
            self.highest, self.warm = highest, float(warm)

        def __call__(self, step: Any) -> Any:
            step = keras.ops.cast(step, "float32") + 1
            if fault == "schedule upside down":
                return self.highest * keras.ops.sqrt(step) * 10
            return self.highest * keras.ops.minimum(
                step / self.warm, keras.ops.sqrt(self.warm / step)
            )

        def get_config(self) -> dict[str, float]:
            return {"highest": self.highest, "warm": self.warm}

    (x, price), (held, held_price), (test, test_price) = (
        flights(n, 3 * seed + n, noise) for n in (count, 501, 1002)
    )
    raw = fault == "prices as they are"
    y, held_y = (part if raw else np.log(part) - 5 for part in (price, held_price))
    if fault == "prices sorted before joining":
        y = np.sort(y)
    if fault == "airlines numbered again":
        for table in (held, test):
            table["airline"] = np.random.default_rng(seed).permutation(AIRLINES)[table["airline"]]
            table["route"] = np.random.default_rng(seed).permutation(ROUTES)[table["route"]]
    airline = keras.Input((), name="airline", dtype="int32")
    route = keras.Input((), name="route", dtype="int32")
    numbers = keras.Input((3,), name="numbers")
    standard = layers.Normalization()
    standard.adapt(x["numbers"])
    scaled = {"layer": standard, "batch": layers.BatchNormalization()}[normalise](numbers)
    parts = [layers.Embedding(AIRLINES, 4)(airline), layers.Embedding(ROUTES, 8)(route), scaled]
    hidden = layers.Concatenate()(parts)
    for units in (48, 24):
        hidden = layers.Dropout(dropout)(layers.Dense(units, activation="relu")(hidden))
    model = keras.Model([airline, route, numbers], layers.Dense(1, activation=last)(hidden))
    if fault == "frozen but for the last layer":
        for layer in model.layers[:-1]:
            layer.trainable = False
    steering: Any = {
        "adam": keras.optimizers.Adam, "nadam": keras.optimizers.Nadam,
        "rmsprop": keras.optimizers.RMSprop,
    }[optimizer](WarmUpThenRoot(rate, 100) if schedule else rate)  # fmt: skip
    model.compile(steering, loss=loss, weighted_metrics=["mae"])
    sample_weight = np.ones(len(y), dtype="float32")
    if weights == "dear flights count":
        sample_weight = (price / price.mean()).astype("float32")
    if weights == "by age, never one":
        sample_weight = np.linspace(1e-4, 2e-4, len(y), dtype="float32")
    if fault == "weights in whole numbers":
        sample_weight = (price // 1000).astype("int32")
    callbacks = [hook.keras()]
    if patience:
        callbacks.append(
            keras.callbacks.EarlyStopping(patience=patience, restore_best_weights=True)
        )
    model.fit(
        x, y, batch, epochs, verbose=0, callbacks=callbacks, sample_weight=sample_weight,
        validation_data=(held, held_y) if validated else None,
    )  # fmt: skip
    said = np.asarray(model.predict(test, verbose=0)).ravel()
    wanted = np.log(test_price) - 5
    if raw:
        said = np.log(np.maximum(said, 1.0)) - 5
    if not np.isfinite(said).all():
        return math.nan
    return float(1 - ((said - wanted) ** 2).mean() / wanted.var())


CASES = cases(
    "flight prices",
    train,
    {
        "plain": {},
        "own schedule": {"schedule": "root", "rate": 1e-2},
        "dear flights count": {"weights": "dear flights count"},
        "tiny weights": {"weights": "by age, never one"},
        "logarithm of the hyperbolic cosine": {"loss": "log_cosh", "optimizer": "nadam"},
        "batch of 512": {"batch": 512, "epochs": 40, "rate": 1e-2, "validated": False},
        "stopped early, batch normalised": {"normalise": "batch", "patience": 3, "epochs": 20},
    },
    {
        "prices as they are": ("range slow", {"fault": "prices as they are", "rate": 1e-3}),
        "prices sorted before joining": (
            "no-skill overfit",
            {"fault": "prices sorted before joining"},
        ),
        "airlines numbered again": ("inputs worse", {"fault": "airlines numbered again"}),
        "weights in whole numbers": ("ignored no-gradient", {"fault": "weights in whole numbers"}),
        "relu at the end": ("range dead", {"last": "relu"}),
        "schedule upside down": (
            "schedule fast worse",
            {"schedule": "root", "fault": "schedule upside down", "rate": 1e-2},
        ),
        "frozen but for the last layer": (
            "unbound slow",
            {"fault": "frozen but for the last layer"},
        ),
    },
)
