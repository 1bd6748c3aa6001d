"""Keras sorts made-up reviews by ``fit``, with the usual callbacks beside the hook's."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin

from benchmarks.detection.case import cases

WORDS, LENGTH, TRAINED, HELD = 60, 16, 2800, 800
NOTS = range(1, 9)


def reviews(count: int, seed: int) -> tuple[Any, Any]:
    """Word numbers, (count, LENGTH), 0 pads; 1 is a good review. A "not" turns the next word."""
    draw = np.random.default_rng(seed)
    mood = np.random.default_rng(5).normal(size=WORDS)
    mood[:9] = 0
    x = draw.integers(9, WORDS, size=(count, LENGTH))
    x = np.where(draw.random(x.shape) < 0.15, draw.integers(1, 9, size=x.shape), x)
    turned = np.where(np.isin(x[:, :-1], NOTS), -1, 1)
    size = draw.integers(10, LENGTH + 1, size=(count, 1))
    kept = np.arange(LENGTH) < size
    score = (mood[x] * np.concatenate([np.ones((count, 1)), turned], 1) * kept).sum(1)
    return np.where(kept, x, 0), (score > np.median(score)).astype("float32")


def optimizer_of(kind: str, rate: float, steps: int, schedule: str, clip: float) -> Any:
    import keras

    speed: Any = rate
    if schedule == "exponential":
        speed = keras.optimizers.schedules.ExponentialDecay(rate, steps, 0.1)
    if schedule == "warm-up":
        speed = keras.optimizers.schedules.CosineDecay(
            rate / 10, steps, warmup_target=rate, warmup_steps=steps // 5
        )
    if schedule == "decays in ten steps":
        speed = keras.optimizers.schedules.ExponentialDecay(rate, 10, 0.5)
    options: dict[str, Any] = {"clipnorm": clip} if clip else {}
    if kind == "sgd":
        return keras.optimizers.SGD(speed, momentum=0.9, **options)
    if kind == "rmsprop":
        return keras.optimizers.RMSprop(speed, **options)
    return keras.optimizers.Adam(speed, **options)


def built(dropout: float, l2: float, last: str, start: str) -> Any:
    import keras
    from keras import layers

    units = 2 if last == "softmax of two" else 1
    ends = {"softmax of two": "softmax", "scores": None}.get(last, last)
    return keras.Sequential([
        keras.Input((LENGTH,), dtype="int32"), layers.Embedding(WORDS, 12),
        layers.Conv1D(24, 2, activation="relu", kernel_initializer=start),
        layers.GlobalAveragePooling1D(),
        layers.Dropout(dropout),
        layers.Dense(16, "relu", kernel_initializer=start,
                     kernel_regularizer=keras.regularizers.L2(l2) if l2 else None),
        layers.Dense(units, ends, kernel_initializer=start),
    ])  # fmt: skip


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 6, batch: int = 32,
    optimizer: str = "adam", loss: str = "binary_crossentropy",
    last: str = "sigmoid", start: str = "glorot_uniform", dropout: float = 0.0, l2: float = 0.0,
    noise: float = 0.0, schedule: str = "", clip: float = 0.0, callbacks: str = "",
    class_weight: dict[int, float] | None = None, split: float = 0.0,
    count: int = TRAINED, factor: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    (x, y), (held, held_y) = reviews(count, seed + 820), reviews(HELD, seed + 821)
    draw = np.random.default_rng(seed)
    if noise:
        y = np.where(draw.random(count) < noise, 1 - y, y)
    if fault == "texts shuffled without labels":
        x = x[draw.permutation(count)]
    if fault == "good ones first":
        x, y = x[np.argsort(-y)], np.sort(y)[::-1].copy()
    if fault == "tokenizer fitted again":
        held = np.concatenate([[0], 1 + draw.permutation(WORDS - 1)])[held]
    if fault == "cut to no words":
        x = np.where(np.arange(LENGTH) < LENGTH - 1, 0, x)
    if fault == "labels of one and two":
        y = y + 1
    sample_weight = np.full(count, factor, "float32")
    if fault == "weights of an empty group":
        sample_weight[count // 2] = np.float32("nan")
    model = built(dropout, l2, last, start)
    if fault == "all frozen but the last bias":
        for layer in model.layers[:-1]:
            layer.trainable = False
    chosen = optimizer_of(optimizer, rate, epochs * count // batch, schedule, clip)
    if loss == "logits":
        criterion: Any = keras.losses.BinaryCrossentropy(from_logits=True)
    elif loss == "smoothed":
        criterion = keras.losses.BinaryCrossentropy(label_smoothing=0.1)
    else:
        criterion = loss
    model.compile(chosen, criterion, metrics=["accuracy"])
    beside: dict[str, Any] = {
        "plateau": keras.callbacks.ReduceLROnPlateau(patience=2, factor=0.3),
        "early stopping": keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True),
        "scheduler of epochs": keras.callbacks.LearningRateScheduler(
            lambda epoch, old: old if epoch < 3 else old * 0.7
        ),
    }
    model.fit(
        x, y, batch, epochs, verbose=0, class_weight=class_weight,
        sample_weight=None if class_weight else sample_weight,
        validation_split=split, validation_data=None if split else (held, held_y),
        shuffle=fault != "good ones first",
        callbacks=[hook.keras(), *([beside[callbacks]] if callbacks else [])],
    )  # fmt: skip
    found = model.predict(held, verbose=0, batch_size=200)
    if not np.isfinite(found).all():
        return math.nan
    if found.shape[1] == 2:
        good = found.argmax(1) == 1
    else:
        good = found[:, 0] > (0.0 if last == "scores" and loss == "logits" else 0.5)
    return float(2 * torch.as_tensor(good == (held_y > 0.5)).double().mean() - 1)


CASES = cases(
    "keras reviews",
    train,
    {
        "plain": {},
        "scores and logits": {"last": "scores", "loss": "logits"},
        "softmax of two": {"last": "softmax of two", "loss": "sparse_categorical_crossentropy"},
        "rmsprop": {"optimizer": "rmsprop"},
        "sgd": {"optimizer": "sgd", "rate": 0.15, "clip": 1.0, "epochs": 8},
        "batch of eight": {"batch": 8, "epochs": 2, "rate": 2e-3},
        "batch of 512": {"batch": 512, "epochs": 40, "rate": 1e-2},
        "reduced on a plateau": {"callbacks": "plateau", "rate": 5e-3},
        "early stopping": {"callbacks": "early stopping"},
        "scheduler of epochs": {"callbacks": "scheduler of epochs", "rate": 5e-3},
        "warm-up and cosine": {"schedule": "warm-up", "rate": 5e-3},
        "exponential": {"schedule": "exponential", "rate": 5e-3},
        "dropout": {"dropout": 0.1},
        "smoothed labels": {"loss": "smoothed"},
        "labels with noise": {"noise": 0.03},
        "validation split": {"split": 0.1},
        "loss times 10000": {"factor": 1e4},
        "classes weighted": {"class_weight": {0: 1.2, 1: 1.0}},
    },
    {
        "softmax of one": ("softmax-axis no-gradient collapse", {"last": "softmax"}),
        "categorical loss of one": (
            "no-gradient no-skill ignored", {"loss": "categorical_crossentropy"}),
        "labels of one and two": (
            "range collapse worse",
            {"fault": "labels of one and two", "last": "scores", "loss": "logits"}),
        "texts shuffled without labels": (
            "no-skill overfit", {"fault": "texts shuffled without labels"}),
        "tokenizer fitted again": ("inputs", {"fault": "tokenizer fitted again"}),
        "cut to no words": ("inputs no-skill", {"fault": "cut to no words"}),
        "good ones first": (
            "order imbalance overfit", {"fault": "good ones first", "split": 0.3, "batch": 64}),
        "relu at the end": ("dead no-gradient probabilities", {"last": "relu", "rate": 3e-2}),
        "weights of an empty group": (
            "not-finite",
            {"fault": "weights of an empty group", "last": "scores", "loss": "logits"}),
        "class weight upside down": (
            "imbalance collapse", {"class_weight": {0: 60.0, 1: 1.0}}),
        "all frozen but the last": (
            "unbound", {"fault": "all frozen but the last bias", "rate": 1e-3}),
        "zero start": ("dead no-gradient no-skill collapse", {"start": "zeros"}),
        "l2 of ten": ("collapse no-skill", {"l2": 10.0}),
        "decays in ten steps": ("schedule slow", {"schedule": "decays in ten steps"}),
        "forty reviews": ("overfit", {"count": 40, "epochs": 100, "batch": 16}),
        "rate x 300": ("fast no-skill dead", {"rate": 1.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)  # fmt: skip
