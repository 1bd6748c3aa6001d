"""Keras on PyTorch: minutes until a courier is at the door, from order and jams.

Two inputs of the functional API: eight numbers of the order (distance, lifts, weight, rain, ...)
and the speeds on three roads in the last hour, each five minutes. The skill is the share of the
variance of the minutes that is explained, of other orders.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, explained
from numpy.typing import NDArray

from benchmarks.detection.case import cases

NUMBERS, TIMES, ROADS = 8, 12, 3
Array = NDArray[Any]


def orders(count: int, seed: int) -> tuple[Array, Array, Array]:
    """Numbers (count, NUMBERS), speeds in km/h (count, TIMES, ROADS), minutes (count,)."""
    draw = np.random.default_rng(seed)
    distance, weight = draw.gamma(3.0, 1.2, count), draw.gamma(2.0, 2.0, count)
    floors, lift = draw.integers(0, 9, count), draw.random(count) < 0.5
    rain, bike = draw.random(count) < 0.3, draw.random(count) < 0.4
    stops, hour = draw.integers(0, 4, count), draw.uniform(8, 22, count)
    base = draw.uniform(18, 45, (count, 1, ROADS))
    trend = draw.uniform(-0.5, 0.5, (count, 1, ROADS))
    time = np.linspace(-1, 0, TIMES)[None, :, None]
    speeds = base * (1 + trend * time) + 2.5 * draw.standard_normal((count, TIMES, ROADS))
    coming = (base * (1 + 0.4 * trend))[:, 0] @ np.array([0.5, 0.3, 0.2])
    pace = np.where(bike, 15.0 - 3.0 * rain, coming)
    climb = np.where(lift, 0.8, 0.45 * floors * (1 + weight / 12))
    minutes = 4 + 60 * distance / pace + climb + 3.5 * stops + 2 * ((hour > 17) & (hour < 20))
    minutes *= 1 + 0.03 * draw.standard_normal(count)
    numbers = np.column_stack([distance, weight, floors, lift, rain, bike, stops, hour])
    return numbers, speeds, minutes


def build(keras: Any, width: int, reader: str, dropout: float, last: str | None, start: Any) -> Any:
    layers = keras.layers
    numbers = keras.Input((NUMBERS,), name="order")
    speeds = keras.Input((TIMES, ROADS), name="speeds")
    if reader == "gru":
        road = layers.GRU(16)(speeds)
    elif reader == "dense":
        road = layers.Dense(16, activation="relu")(layers.Flatten()(speeds))
    else:
        road = layers.Conv1D(16, 3, activation="relu", kernel_initializer=start)(speeds)
        road = layers.GlobalAveragePooling1D()(road)
    both = layers.Concatenate()([numbers, road])
    for _ in range(2):
        both = layers.Dense(width, activation="relu", kernel_initializer=start)(both)
        both = layers.Dropout(dropout)(both) if dropout else both
    minutes = layers.Dense(1, activation=last, name="minutes")(both)
    return keras.Model([numbers, speeds], minutes)


def train(
    seed: int, hook: Any, rate: Any = 3e-3, epochs: int = 9, batch: int = 24, loss: str = "mse",
    optimizer: str = "Adam", settings: dict[str, Any] | None = None, schedule: str = "",
    reader: str = "convolution", width: int = 48, dropout: float = 0.0, last: str | None = None,
    start: Any = "glorot_uniform", count: int = 3000, unit: float = 12.0, stop: bool = False,
    evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    parts = [orders(n, 7 * seed + n) for n in (count, 602, 2003)]
    (numbers, speeds, minutes), held, test = parts
    mean, spread = numbers.mean(0), numbers.std(0)
    pace, swing = speeds.mean((0, 1)), speeds.std((0, 1))
    middle = minutes.mean()

    def prepared(order: Array, speed: Array, later: bool) -> list[Array]:
        if fault == "not scaled when evaluated" and later:
            return [order.astype("float32"), speed.astype("float32")]
        order, speed = (order - mean) / spread, (speed - pace) / swing
        return [order.astype("float32"), speed.astype("float32")]

    y, held_y = (minutes - middle) / unit, (held[2] - middle) / unit
    if fault == "minutes sorted by themselves":
        y = np.sort(y)
    planned = rate
    if schedule == "cosine":
        planned = keras.optimizers.schedules.CosineDecay(rate, epochs * count // batch, alpha=0.02)
    elif schedule == "warm-up":
        planned = keras.optimizers.schedules.CosineDecay(
            0.0, epochs * count // batch, warmup_target=rate, warmup_steps=300
        )
    elif schedule == "steps taken for epochs":
        planned = keras.optimizers.schedules.ExponentialDecay(rate, epochs, 0.5)
    model = build(keras, width, reader, dropout, last, start)
    updates = getattr(keras.optimizers, optimizer)(learning_rate=planned, **(settings or {}))
    model.compile(optimizer=updates, loss=loss, metrics=["mae"])
    callbacks: list[Any] = [hook.keras()]
    if stop:
        callbacks.append(keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True))
    model.fit(
        prepared(numbers, speeds, later=False),
        y.astype("float32"),
        batch_size=batch,
        epochs=epochs,
        validation_data=(
            (prepared(*held[:2], later=True), held_y.astype("float32")) if evaluated else None
        ),
        validation_batch_size=200,
        callbacks=callbacks,
        verbose=0,
    )
    found = model.predict(prepared(*test[:2], later=True), batch_size=500, verbose=0)[:, 0]
    found = torch.as_tensor(found.astype("float64")) * unit + middle
    return explained(found, torch.as_tensor(test[2])) if found.isfinite().all() else float("nan")


CASES = cases(
    "keras courier times",
    train,
    {
        "plain": {},
        "GRU for the roads, stops early": {
            "reader": "gru", "stop": True, "epochs": 10, "schedule": "cosine",
        },
        "momentum and Huber": {
            "optimizer": "SGD", "rate": 0.02, "loss": "huber", "settings": {"momentum": 0.9},
        },
        "average of weights, warm-up": {
            "settings": {"use_ema": True, "ema_momentum": 0.99}, "schedule": "warm-up",
            "rate": 4e-3,
        },
        "accumulated, clipped": {
            "settings": {"gradient_accumulation_steps": 4, "global_clipnorm": 1.0}, "rate": 4e-3,
        },
        "minutes not scaled, not evaluated": {"unit": 1.0, "evaluated": False, "rate": 3e-3},
        "batch of 250": {"batch": 250, "epochs": 40, "rate": 6e-3},
    },
    {
        "not scaled when evaluated": (
            "inputs overfit worse", {"fault": "not scaled when evaluated"},
        ),
        "minutes sorted by themselves": (
            "no-skill overfit order", {"fault": "minutes sorted by themselves"},
        ),
        "rectified at the end": (
            "range no-skill dead", {"last": "relu"},
        ),
        "start of zeros": ("dead no-gradient no-skill collapse", {"start": "zeros"}),
        "rate of 1": ("fast no-skill dead worse", {"rate": 1.0}),
        "rate halved each nine steps": (
            "schedule slow", {"schedule": "steps taken for epochs", "rate": 1e-3},
        ),
    },
)  # fmt: skip
