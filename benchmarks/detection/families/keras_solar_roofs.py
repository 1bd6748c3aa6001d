"""Keras on PyTorch: the power of solar panels on a roof, by a Sequential with Normalization.

Sun, clouds, temperature and wind are known, and the area, slope, direction and age of the panels.
The skill is the share of the variance of the power of other roofs that is explained.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, explained

from benchmarks.detection.case import cases

COLUMNS = 9


def roofs(count: int, seed: int) -> tuple[Any, Any]:
    """Columns in units of the weather service, and power in kilowatts."""
    draw = np.random.default_rng(seed)
    height, direction = draw.uniform(8, 62, count), draw.uniform(90, 270, count)
    clouds, air = 100 * draw.beta(0.8, 0.9, count), draw.normal(14, 8, count)
    wind = draw.gamma(2, 2, count)
    area, slope = draw.uniform(12, 45, count), draw.uniform(5, 45, count)
    facing, age = draw.uniform(110, 250, count), draw.uniform(0, 20, count)
    up, tilt = np.radians(height), np.radians(slope)
    angle = np.sin(up) * np.cos(tilt)
    angle = angle + np.cos(up) * np.sin(tilt) * np.cos(np.radians(direction - facing))
    clear = 1 - 0.8 * (clouds / 100) ** 2
    light = 900 * clear * (0.85 * angle.clip(0) + 0.15) * np.sin(up) ** 0.2
    heat = air + light / (25 + 6 * wind)
    power = area * light * 0.19e-3 * (1 - 0.004 * (heat - 25)) * (1 - 0.008 * age)
    power = power * np.exp(0.04 * draw.normal(size=count))
    x = np.stack([height, direction, clouds, air, wind, area, slope, facing, age], 1)
    return x.astype("float32"), power.astype("float32")


def gain(keras: Any) -> Any:
    """The explained share of the variance, which should rise."""

    def explained_share(wanted: Any, found: Any) -> Any:
        left = keras.ops.sum(keras.ops.square(wanted - found))
        whole = keras.ops.sum(keras.ops.square(wanted - keras.ops.mean(wanted)))
        return 1 - left / (whole + 1e-6)

    return explained_share


def build(keras: Any, x: Any, final: str | None) -> Any:
    layers = keras.layers
    first = layers.Normalization()
    first.adapt(x)
    hidden = [layers.Dense(64, activation="relu") for _ in range(2)]
    last = layers.Dense(1, activation=final)
    return keras.Sequential([keras.Input((COLUMNS,)), first, *hidden, last])


def train(
    seed: int, hook: Any, loss: str = "mse", rate: Any = 3e-3, epochs: int = 22, batch: int = 32,
    optimizer: str = "Adam", final: str | None = None,
    decay_steps: int = 0, callback: str = "", count: int = 3750,
    validate: bool = True, more: Any = None, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    (x, power), (test, wanted) = roofs(count, seed + 12100), roofs(1500, seed + 12101)
    if fault == "weather joined by the wrong key":
        weather = np.random.default_rng(seed).permutation(count)
        x[:, :5] = x[weather, :5]
    if fault == "angles in radians afterwards":
        test[:, [0, 1, 6, 7]] = np.radians(test[:, [0, 1, 6, 7]])
    model = build(keras, x[:20] * 0 if fault == "adapted to zeros" else x, final)
    if decay_steps:
        rate = keras.optimizers.schedules.ExponentialDecay(rate, decay_steps, 0.9)
    if callback == "cosine with warm-up":
        steps = epochs * (count * 4 // 5 // batch)
        rate = keras.optimizers.schedules.CosineDecay(
            1e-4, steps, warmup_target=rate, warmup_steps=steps // 10
        )
    steering = getattr(keras.optimizers, optimizer)(learning_rate=rate, **(more or {}))
    measure: Any = gain(keras) if loss == "explained share" else loss
    model.compile(optimizer=steering, loss=measure, metrics=["mae"])
    callbacks: list[Any] = [hook.keras()]
    if callback == "plateau":
        callbacks.append(keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=2))
        callbacks.append(keras.callbacks.EarlyStopping(patience=8, restore_best_weights=True))
    model.fit(
        x, power, batch_size=batch, epochs=epochs, validation_split=0.2 if validate else 0.0,
        callbacks=callbacks, verbose=0,
    )  # fmt: skip
    found = torch.as_tensor(model.predict(test, batch_size=500, verbose=0)).double().squeeze(1)
    return explained(found, torch.as_tensor(wanted).double())


CASES = cases(
    "keras solar roofs",
    train,
    {
        "plain": {},
        "cosine with warm-up, Huber": {"callback": "cosine with warm-up", "loss": "huber"},
        "plateau and early stopping": {"callback": "plateau", "epochs": 30},
        "average of weights, four steps in one": {
            "batch": 8, "epochs": 10, "more": {"use_ema": True, "gradient_accumulation_steps": 4},
        },
        "momentum and clipping": {
            "optimizer": "SGD", "rate": 1e-2, "more": {"momentum": 0.9, "clipnorm": 1.0},
        },
        "batch of 1500, no validation": {
            "batch": 1500, "epochs": 400, "rate": 1e-2, "validate": False,
        },
    },
    {
        "explained share as the loss": (
            "worse no-skill fast", {"loss": "explained share"},
        ),
        "weather joined by the wrong key": (
            "no-skill overfit", {"fault": "weather joined by the wrong key"},
        ),
        "angles in radians afterwards": (
            "inputs overfit worse", {"fault": "angles in radians afterwards"},
        ),
        "decay by epochs at each step": ("schedule slow no-skill", {"decay_steps": 2}),
        "sigmoid at the end": ("range saturated no-skill collapse", {"final": "sigmoid"}),
        "rate 3": ("fast worse dead no-skill", {"rate": 3.0}),
    },
)  # fmt: skip
