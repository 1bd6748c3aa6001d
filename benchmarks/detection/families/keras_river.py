"""Keras on PyTorch: how a river rises in the next hours, from the last day's rain and levels.

Rain at two stations, upstream and near, takes hours to reach the gauge, and more of it does when
the ground is wet. A window has 24 hours of three columns, and the model says by how much the level
will differ from now in 2, 4, 6 and 8 hours. The skill is the share of variance explained in the
last part of the record.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, explained
from numpy.typing import NDArray

from benchmarks.detection.case import cases

PAST, HORIZONS = 24, (2, 4, 6, 8)
Array = NDArray[Any]


def record(hours: int, seed: int) -> Array:
    """(hours, 3): rain upstream and near in millimetres, and the level in metres."""
    draw = np.random.default_rng(seed)
    wet = np.zeros(hours)
    state = 0.0
    for hour in range(hours):
        state = float(draw.random() < (0.85 if state else 0.04))
        wet[hour] = state
    rain = wet[:, None] * draw.gamma(2.0, 1.0, (hours, 1)) * draw.gamma(4.0, 0.25, (hours, 2))
    ground = np.convolve(rain.mean(1), np.exp(-np.arange(200) / 60) / 60)[:hours]
    reached = rain * (0.2 + ground / (0.5 + ground))[:, None]
    time = np.arange(72)
    flow = np.zeros(hours)
    for station, (rise, fall) in enumerate(((7.0, 1.8), (6.0, 1.4))):
        wave = time**rise * np.exp(-time / fall)
        flow += np.convolve(reached[:, station], wave / wave.sum())[:hours]
    level = 0.4 + (0.2 + flow) ** 0.6 + 0.01 * draw.standard_normal(hours)
    return np.column_stack([rain, level])[100:]


def windows(series: Array, fault: str = "", every: int = 3) -> tuple[Array, Array]:
    """(N, PAST, 3), and the rise in metres (N, HORIZONS)."""
    now = np.arange(PAST - 1, len(series) - max(HORIZONS), every)
    x = series[now[:, None] + np.arange(1 - PAST, 1)]
    level = series[:, 2]
    ahead = now[:, None] + np.array(HORIZONS)
    if fault == "unsigned levels":
        level = (100 * level).astype("uint16")
        return x, (level[ahead] - level[now][:, None]) / 100
    return x, level[ahead] - level[now][:, None]


def smoothed(series: Array, centred: bool) -> Array:
    """The level as a mean of some hours: the last ones, or those around."""
    hours = 2 * max(HORIZONS) + 1 if centred else 3
    mean = np.convolve(series[:, 2], np.ones(hours) / hours)
    start = hours // 2 if centred else 0
    return np.column_stack([series[:, :2], mean[start : start + len(series)]])


def build(keras: Any, kind: str, extra: str, fault: str, start: str, penalty: float) -> Any:
    layers = keras.layers
    first = "tanh" if fault == "start too large" else "relu"
    rule = keras.regularizers.L2(penalty) if penalty else None
    initial = keras.initializers.RandomNormal(stddev=30.0) if start == "large" else start
    both = {"activation": first, "kernel_initializer": initial, "kernel_regularizer": rule}
    model = keras.Sequential([keras.Input((PAST, 3))])
    if extra == "noise layer":
        model.add(layers.GaussianNoise(0.1))
    if kind == "gru":
        model.add(layers.Conv1D(16, 5, strides=2, **both))
        model.add(layers.GRU(24))
    else:
        model.add(layers.Flatten())
        model.add(layers.Dense(48, **both))
        if extra == "batch norm":
            model.add(layers.BatchNormalization(momentum=0.9))
    model.add(layers.Dense(32, **both))
    if extra == "dropout":
        model.add(layers.Dropout(0.05))
    final = "softmax" if fault == "softmax at the end" else None
    model.add(layers.Dense(len(HORIZONS), activation=final, kernel_regularizer=rule))
    if fault == "dropout at the end":
        model.add(layers.Dropout(0.7))
    return model


def loss_of(keras: Any, kind: str) -> Any:
    """What compile() gets: a name, or a function of what is wanted and what was found."""
    ops = keras.ops

    def efficiency(wanted: Any, found: Any) -> Any:
        spread = ops.sum(ops.square(wanted - ops.mean(wanted, axis=0))) + 1e-3
        return 1 - ops.sum(ops.square(wanted - found)) / spread

    def pinball(wanted: Any, found: Any) -> Any:
        return ops.mean(ops.maximum(0.5 * (wanted - found), 0.5 * (found - wanted)), axis=-1)

    own: dict[str, Any] = {
        "pinball": pinball,
        "efficiency lost": lambda wanted, found: 1 - efficiency(wanted, found),
        "efficiency": efficiency,
        "squared mean": lambda wanted, found: ops.square(ops.mean(wanted - found)),
        "rounded": lambda wanted, found: ops.mean(ops.square(wanted - ops.round(found)), axis=-1),
        "logarithms": lambda wanted, found: ops.square(ops.log(wanted) - ops.log(found)),
        "x 10000": lambda wanted, found: 1e4 * ops.mean(ops.square(wanted - found), axis=-1),
    }
    return own.get(kind, kind)


def optimizer_of(keras: Any, kind: str, rate: Any, settings: dict[str, Any]) -> Any:
    if kind == "SGD":
        settings = {"momentum": 0.9, "nesterov": True, **settings}
    return getattr(keras.optimizers, kind)(learning_rate=rate, **settings)


def train(
    seed: int, hook: Any, loss: str = "mse", kind: str = "dense", optimizer: str = "Adam",
    rate: float = 2e-3, epochs: int = 12, batch: int = 32, settings: dict[str, Any] | None = None,
    callback: str = "", schedule: str = "", extra: str = "", start: str = "glorot_uniform",
    penalty: float = 0.0, samples: int = 2000, unit: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    draw = np.random.default_rng(seed + 6302)
    series = record(3 * samples + 4200, seed + 6300)
    past, later, last = series[:-4000], series[-4000:-2500], series[-2500:]
    if fault == "mean of the hours around":
        past, later, last = smoothed(past, True), smoothed(later, True), smoothed(last, False)
    if fault == "-999 for a gap":
        past = past.copy()
        past[draw.random(len(past)) < 0.01, 2] = -999.0
    if fault == "gap not filled":
        past = past.copy()
        past[len(past) // 2 : len(past) // 2 + 3, 2] = np.nan
    if extra == "noisy gauge":
        past = past + [0, 0, 0.03] * draw.standard_normal(past.shape)
    (x, y), (held_x, held_y) = windows(past, fault), windows(later, fault)
    test_x, _ = windows(last)
    test_y = windows(series[-2500:])[1]
    x, y = x[:samples], y[:samples]
    if fault == "rise of the day before":
        y = np.roll(y, 12, 0)
    mean, spread = x.mean((0, 1)), x.std((0, 1))
    if fault == "gap not filled":
        mean, spread = np.nanmean(x, (0, 1)), np.nanstd(x, (0, 1))
    size = np.nanstd(y) / unit
    if fault == "centimetres when evaluated":
        held_x, test_x = held_x * [1, 1, 100], test_x * [1, 1, 100]
    if fault == "newest hour first":
        held_x, test_x = held_x[:, ::-1], test_x[:, ::-1]
    x, held_x, test_x = (((v - mean) / spread).astype("float32") for v in (x, held_x, test_x))
    y, held_y = (y / size).astype("float32"), (held_y / size).astype("float32")

    model = build(keras, kind, extra, fault, start, penalty)
    if fault == "frozen but for the end":  # a model that is frozen trains none of its layers
        model.trainable = False
        model.layers[-1].trainable = True
    planned: Any = {
        "cosine": lambda: keras.optimizers.schedules.CosineDecay(rate, 63 * epochs, alpha=0.01),
        "exponential": lambda: keras.optimizers.schedules.ExponentialDecay(rate, 63, 0.9),
        "every step": lambda: keras.optimizers.schedules.ExponentialDecay(rate, 1, 0.9),
    }.get(schedule, lambda: rate)()
    updates = optimizer_of(keras, optimizer, planned, settings or {})
    model.compile(updates, loss_of(keras, loss), metrics=["mae"])

    callbacks: list[Any] = [hook.keras()]
    if callback == "plateau":
        callbacks.append(keras.callbacks.ReduceLROnPlateau(patience=2, factor=0.5))
    elif callback == "plateau of a maximum":
        plateau = keras.callbacks.ReduceLROnPlateau(mode="max", patience=1, factor=0.1)
        callbacks.append(plateau)
    elif callback == "best weights":
        stop = keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True)
        callbacks.append(stop)
    weights = None
    if extra == "high water weighs more":
        weights = 1 + (x[:, -1, 2] > 1)
    elif fault == "weights of what is missing":
        weights = (draw.random(len(x)) < 0.01).astype("float32")
    model.fit(
        x,
        y,
        batch_size=batch,
        epochs=epochs,
        validation_data=None if extra == "not validated" else (held_x, held_y),
        validation_batch_size=250,
        sample_weight=weights,
        callbacks=callbacks,
        verbose=0,
    )
    found = model.predict(test_x, batch_size=250, verbose=0) * size
    return explained(torch.as_tensor(found).double(), torch.as_tensor(test_y))


CASES = cases(
    "keras river",
    train,
    {
        "plain": {},
        "convolution and GRU": {"kind": "gru", "rate": 4e-3, "epochs": 8},
        "Huber": {"loss": "huber"},
        "absolute error": {"loss": "mae"},
        "half of the pinball loss": {"loss": "pinball", "rate": 3e-3},
        "efficiency lost": {"loss": "efficiency lost"},
        "loss x 10000": {"loss": "x 10000"},
        "a unit 100 times smaller": {"unit": 100.0, "rate": 5e-3, "epochs": 16},
        "Nesterov": {"optimizer": "SGD", "rate": 2e-2},
        "RMSprop": {"optimizer": "RMSprop", "rate": 1e-3},
        "AdamW, cosine": {
            "optimizer": "AdamW", "schedule": "cosine", "settings": {"weight_decay": 0.01},
            "rate": 4e-3,
        },
        "falls by a tenth an epoch": {"schedule": "exponential", "rate": 4e-3},
        "rate lowered on plateaus": {"callback": "plateau", "rate": 4e-3},
        "best weights restored": {"callback": "best weights", "epochs": 16},
        "average of weights": {"settings": {"use_ema": True, "ema_momentum": 0.97}},
        "accumulated": {
            "batch": 8, "epochs": 8, "rate": 4e-3, "settings": {"gradient_accumulation_steps": 4},
        },
        "clipped, not validated": {"settings": {"clipnorm": 0.1}, "extra": "not validated"},
        "batch of eight": {"batch": 8, "epochs": 4, "rate": 1e-3},
        "batch of 256": {"batch": 256, "epochs": 60, "rate": 5e-3},
        "batch norm": {"extra": "batch norm"},
        "dropout": {"extra": "dropout", "epochs": 16},
        "noise layer": {"extra": "noise layer", "epochs": 16},
        "noisy gauge": {"extra": "noisy gauge"},
        "high water weighs more": {"extra": "high water weighs more"},
        "weights penalised": {"penalty": 1e-4},
    },
    {
        "rise of the day before": ("no-skill overfit", {"fault": "rise of the day before"}),
        "mean of the hours around": ("leak", {"fault": "mean of the hours around"}),
        "newest hour first": ("inputs overfit", {"fault": "newest hour first"}),
        "centimetres when evaluated": ("inputs overfit", {"fault": "centimetres when evaluated"}),
        "-999 for a gap": ("inputs range no-skill worse", {"fault": "-999 for a gap"}),
        "gap not filled": ("not-finite", {"fault": "gap not filled"}),
        "unsigned levels": ("range inputs no-skill worse", {"fault": "unsigned levels"}),
        "few windows": ("overfit", {"samples": 32, "epochs": 400}),
        "weights of what is missing": (
            "ignored no-skill overfit slow", {"fault": "weights of what is missing"},
        ),
        "softmax at the end": ("range probabilities no-skill", {"fault": "softmax at the end"}),
        "dropout at the end": ("mode no-skill slow", {"fault": "dropout at the end"}),
        "squared mean": ("no-skill collapse worse", {"loss": "squared mean"}),
        "efficiency minimised": ("worse no-skill fast not-finite", {"loss": "efficiency"}),
        "rounded in the loss": ("no-gradient unbound no-skill", {"loss": "rounded"}),
        "logarithms of falls": ("not-finite range", {"loss": "logarithms"}),
        "zero start": ("dead no-gradient no-skill", {"start": "zeros"}),
        "start too large": (
            "saturated no-skill slow", {"fault": "start too large", "start": "large"},
        ),
        "frozen but for the end": (
            "unbound no-gradient no-skill", {"fault": "frozen but for the end"},
        ),
        "plateau of a maximum": (
            "schedule slow", {"callback": "plateau of a maximum", "rate": 3e-4},
        ),
        "falls by a tenth a step": ("schedule slow", {"schedule": "every step"}),
        "penalty of one": ("collapse no-skill slow", {"penalty": 1.0}),
        "rate x 1000": ("fast no-skill dead saturated worse", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)  # fmt: skip
