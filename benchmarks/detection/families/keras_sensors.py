"""Keras on PyTorch: convolutions over windows of an accelerometer say what a person does."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import balanced_skill, begin
from numpy.typing import NDArray

from benchmarks.detection.case import cases

LENGTH, CHANNELS = 48, 3
ACTIVITIES = ("lie", "stand", "walk", "jog", "stairs", "cycle")
Array = NDArray[Any]

#           posture (x, y, z)      beats per window   strength
PROFILE = {
    "lie": ((0.1, 0.2, 1.0), 0.0, 0.0),
    "stand": ((0.1, 1.0, 0.2), 0.0, 0.0),
    "walk": ((0.1, 1.0, 0.2), 3.0, 0.5),
    "jog": ((0.2, 1.0, 0.3), 5.0, 1.0),
    "stairs": ((0.3, 0.9, 0.3), 3.0, 0.8),
    "cycle": ((0.5, 0.8, 0.4), 4.0, 0.3),
}


def windows(count: int, seed: int, share: Any = None) -> tuple[Array, Array]:
    """Windows in g, (N, LENGTH, CHANNELS), and the number of the activity."""
    draw = np.random.default_rng(seed)
    y = draw.choice(len(ACTIVITIES), count, p=share)
    posture, beats, strength = (
        np.array([PROFILE[a][part] for a in ACTIVITIES], dtype=np.float64)[y] for part in range(3)
    )
    time = np.arange(LENGTH) / LENGTH
    rate = beats[:, None] * draw.uniform(0.85, 1.15, (count, 1))
    phase = draw.uniform(0, 1, (count, 1))
    swing = strength[:, None] * draw.uniform(0.7, 1.3, (count, 1))
    wave = swing * np.sin(2 * np.pi * (rate * time + phase))
    sharp = swing * 0.5 * np.sin(4 * np.pi * (rate * time + phase)) * (y == 4)[:, None]
    x = posture[:, None, :] + 0.1 * draw.standard_normal((count, 1, CHANNELS))
    x = x + np.stack([0.4 * wave, wave + sharp, 0.6 * wave - sharp], 2)
    return (x + 0.25 * draw.standard_normal(x.shape)).astype("float32"), y.astype("int64")


def build(keras: Any, kind: str, fault: str, extra: str, start: str) -> Any:
    layers = keras.layers
    activation = "sigmoid" if fault == "sigmoids" else "relu"
    model = keras.Sequential([keras.Input((LENGTH, CHANNELS))])
    if kind == "gru":
        model.add(layers.Conv1D(16, 5, strides=3, activation="relu"))
        model.add(layers.GRU(24))
    else:
        for width in (16, 24):
            model.add(
                layers.Conv1D(
                    width,
                    5,
                    strides=2,
                    activation=activation,
                    kernel_initializer=start,
                )
            )
            if extra == "batch norm" or fault == "slow statistics":
                momentum = 0.9999 if fault == "slow statistics" else 0.9
                model.add(layers.BatchNormalization(momentum=momentum))
        model.add(layers.GlobalAveragePooling1D())
    model.add(layers.Dense(32, activation=activation, kernel_initializer=start))
    final = "relu" if fault == "relu at the end" else "softmax"
    model.add(layers.Dense(len(ACTIVITIES), activation=final))
    return model


def train(
    seed: int, hook: Any, epochs: int = 8, batch: int = 32, rate: float = 3e-3,
    optimizer: str = "adam", settings: dict[str, Any] | None = None, kind: str = "conv",
    start: str = "glorot_uniform", callback: str = "", samples: int = 1000, extra: str = "",
    fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    draw = np.random.default_rng(seed + 5)
    share = [0.4, 0.3, 0.15, 0.05, 0.05, 0.05] if extra == "class weights" else None
    if fault == "rare activities":
        share = [0.95, 0.03, 0.005, 0.005, 0.005, 0.005]
    x, y = windows(samples, seed + 300, share)
    held_x, held_y = windows(600, seed + 301)
    if fault == "labels of the next window":
        y = np.roll(y, 1)
    elif fault == "recordings in order":
        x, y = x[np.argsort(y, kind="stable")], np.sort(y)
    elif fault == "gap in a recording":
        x[samples // 2, 10:20] = np.nan
    elif fault == "axes reordered":
        held_x = held_x.transpose(0, 2, 1).reshape(held_x.shape)
    elif fault == "division by spread":
        x[samples // 3] = 1.0
        x, held_x = ((v - v.mean(1, keepdims=True)) / v.std(1, keepdims=True) for v in (x, held_x))
    if extra == "labels with noise":
        wrong = draw.random(len(y)) < 0.05
        y = np.where(wrong, draw.integers(0, len(ACTIVITIES), len(y)), y)

    model = build(keras, kind, fault, extra, start)
    config = {"learning_rate": rate, **(settings or {})}
    chosen = keras.optimizers.get({"class_name": optimizer, "config": config})
    criterion: Any = keras.losses.SparseCategoricalCrossentropy()
    if extra == "loss x 1e4":
        plain = keras.losses.SparseCategoricalCrossentropy()
        criterion = lambda wanted, found: 1e4 * plain(wanted, found)  # noqa: E731 - as users do
    model.compile(chosen, criterion, metrics=["accuracy"])

    callbacks: list[Any] = [hook.keras()]
    if callback == "plateau":
        callbacks.append(keras.callbacks.ReduceLROnPlateau(patience=2, factor=0.5))
    elif callback == "scheduler":
        callbacks.append(keras.callbacks.LearningRateScheduler(lambda epoch, now: now * 0.05))
    counts = np.bincount(y, minlength=len(ACTIVITIES))
    weights = None
    if extra == "class weights":
        weights = {k: len(y) / len(counts) / n for k, n in enumerate(counts)}

    model.fit(
        x,
        y,
        batch_size=batch,
        validation_batch_size=300,
        epochs=epochs,
        validation_data=None if extra == "no validation" else (held_x, held_y),
        class_weight=weights,
        callbacks=callbacks,
        shuffle=fault != "recordings in order",
        verbose=0,
    )
    scores = model.predict(held_x, batch_size=200, verbose=0)
    return balanced_skill(torch.as_tensor(scores), torch.as_tensor(held_y))


CASES = cases(
    "keras sensors",
    train,
    {
        "plain": {},
        "convolution and GRU": {"kind": "gru", "rate": 5e-3},
        "class weights": {"extra": "class weights", "samples": 2000, "epochs": 6},
        "rate lowered on plateaus": {"callback": "plateau"},
        "batch norm": {"extra": "batch norm"},
        "labels with noise": {"extra": "labels with noise"},
        "loss x 1e4": {"extra": "loss x 1e4"},
        "momentum": {
            "optimizer": "sgd", "rate": 5e-2, "settings": {"momentum": 0.9, "nesterov": True},
        },
        "clipped, not validated": {"settings": {"clipnorm": 0.5}, "extra": "no validation"},
        "accumulated": {
            "batch": 8, "epochs": 6, "rate": 5e-3, "settings": {"gradient_accumulation_steps": 4},
        },
        "batch of 4": {"batch": 4, "epochs": 4, "rate": 1e-3},
        "batch of 512": {"batch": 512, "epochs": 60, "rate": 8e-3},
    },
    {
        "labels of the next window": ("no-skill overfit", {"fault": "labels of the next window"}),
        "recordings in order": ("order", {"fault": "recordings in order", "epochs": 6}),
        "gap in a recording": ("not-finite", {"fault": "gap in a recording"}),
        "division by spread": ("not-finite", {"fault": "division by spread"}),
        "axes reordered in tests": ("inputs overfit", {"fault": "axes reordered"}),
        "relu at the end": ("range probabilities dead no-skill", {"fault": "relu at the end"}),
        "sigmoids": ("slow saturated no-skill", {"fault": "sigmoids", "optimizer": "sgd"}),
        "slow statistics": ("mode", {"fault": "slow statistics"}),
        "rare activities": ("imbalance collapse", {"fault": "rare activities"}),
        "zero start": ("dead no-gradient no-skill", {"start": "zeros"}),
        "rate falls each epoch": ("slow schedule", {"callback": "scheduler"}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
    },
)  # fmt: skip
