"""Keras on PyTorch: kinds of engine sounds, by a subclassed Model with its own train_step.

A recording is a small picture of loudness by 16 bands and 20 frames: harmonics of the speed, which
rises or falls, and noises of the five states (sound, knocking, misfiring, squealing, leaking).
The skill is the accuracy above that of the commonest state in recordings of other engines.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, class_skill
from numpy.typing import NDArray

from benchmarks.detection.case import cases

BANDS, FRAMES, KINDS = 16, 20, 5
Array = NDArray[Any]


def recordings(count: int, seed: int) -> tuple[Array, Array]:
    """Loudness in decibels (N, FRAMES, BANDS), and the state."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(KINDS, size=count)
    time, band = np.arange(FRAMES)[:, None], np.arange(BANDS)
    power = np.empty((count, FRAMES, BANDS))
    for row, state in enumerate(kind):
        speed = draw.uniform(2, 4) + draw.uniform(-0.06, 0.06) * time
        sound = sum(np.exp(-((band - n * speed) ** 2)) / n for n in (1, 2, 3))
        if state == 1:  # knocks, broad and at regular times
            sound = sound + 0.5 * (time % 4 == draw.integers(4)) * np.exp(-((band - 9) ** 2) / 12)
        elif state == 2:  # some strokes are missing
            sound = sound * np.where((time + draw.integers(5)) % 5 < 2, 0.35, 1.0)
        elif state == 3:
            place = draw.uniform(11, 14) + 0.05 * time
            sound = sound + 0.4 * np.exp(-2 * (band - place) ** 2)
        elif state == 4:
            sound = sound + 0.25 / (1 + np.exp(8 - band))
        power[row] = sound * draw.uniform(0.5, 2)
    power += 0.05 * draw.random(power.shape) + 0.01
    return 10 * np.log10(power).astype("float32"), kind


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 8, batch: int = 24, count: int = 2400,
    optimizer: str = "Adam", settings: dict[str, Any] | None = None, mixed: float = 0.0,
    noise: float = 0.0, penalty: float = 0.0, scale: float = 1.0, recurrent: bool = False,
    dropout: float = 0.0, validated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras
    from keras import layers, ops

    keras.utils.set_random_seed(seed)
    of_classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    class Listener(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            rule = keras.regularizers.L2(penalty) if penalty else None
            if recurrent:
                self.body = [layers.GRU(24, return_sequences=True)]
            else:
                self.body = [
                    layers.Conv1D(units, 5, activation="relu", kernel_regularizer=rule)
                    for units in (16, 24)
                ]
            self.pool, self.drop = layers.GlobalAveragePooling1D(), layers.Dropout(dropout)
            self.peak = layers.GlobalMaxPooling1D()
            self.head = layers.Dense(KINDS)

        def call(self, x: Any, training: bool = False) -> Any:
            for layer in self.body:
                x = layer(x)
            x = ops.concatenate([self.pool(x), self.peak(x)], axis=1)
            return self.head(self.drop(x, training=training))

        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            if mixed:
                share, order = 1 - mixed * torch.rand(()), torch.randperm(len(x))
                found = self(share * x + (1 - share) * x[order], training=True)
                loss = share * of_classes(y, found) + (1 - share) * of_classes(y[order], found)
            else:
                found = self(x, training=True)
                loss = of_classes(y, found)
            loss = loss + sum(self.losses)
            if fault == "gradients never zeroed":
                loss.backward()
            else:
                self.zero_grad()
                (scale * loss).backward()
            weights = self.trainable_weights
            if fault == "head alone applied":
                weights = self.head.trainable_weights
            gradients = [weight.value.grad for weight in weights]
            with torch.no_grad():
                self.optimizer.apply(gradients, weights)
            for metric in self.metrics:
                metric.update_state(loss) if metric.name == "loss" else metric.update_state(
                    y, found
                )
            return {metric.name: metric.result() for metric in self.metrics}

    (x, y), (held_x, held_y) = recordings(count, seed + 9660), recordings(300, seed + 9661)
    test_x, test_y = recordings(800, seed + 9662)
    draw = np.random.default_rng(seed)
    if noise:
        y = np.where(draw.random(count) < noise, draw.permutation(y), y)
    if fault == "shuffled apart from the labels":
        x = x[draw.permutation(count)]
    mean, spread = x.mean(), x.std()
    x = (x - mean) / spread
    if fault == "decibels as they are when evaluated":
        mean, spread = np.float32(0), np.float32(1)
    if fault == "frames and bands exchanged when evaluated":
        held_x, test_x = (v.reshape(-1, BANDS, FRAMES).swapaxes(1, 2) for v in (held_x, test_x))
    held_x, test_x = (held_x - mean) / spread, (test_x - mean) / spread
    model = Listener()
    chosen = getattr(keras.optimizers, optimizer)(learning_rate=rate, **(settings or {}))
    model.compile(chosen, of_classes, metrics=["accuracy"])
    model.fit(
        x, y, batch_size=batch, epochs=epochs, callbacks=[hook.keras()], verbose=0,
        validation_data=(held_x, held_y) if validated else None, validation_batch_size=150,
    )  # fmt: skip
    scores = torch.as_tensor(model.predict(test_x, batch_size=200, verbose=0))
    return class_skill(scores, torch.as_tensor(test_y))


CASES = cases(
    "keras engine sounds",
    train,
    {
        "plain": {},
        "mixed recordings": {"mixed": 0.3, "epochs": 10},
        "GRU, Nadam": {"recurrent": True, "optimizer": "Nadam", "rate": 5e-3, "epochs": 10},
        "penalised weights": {"penalty": 1e-3, "epochs": 10},
        "loss x 1000, clipped": {"scale": 1e3, "settings": {"clipnorm": 1.0}},
        "labels with noise, not validated": {"noise": 0.1, "validated": False, "epochs": 10},
        "dropout, momentum": {
            "dropout": 0.2, "optimizer": "SGD", "rate": 0.02, "settings": {"momentum": 0.9},
        },
    },
    {
        "gradients never zeroed": (
            "kept-gradients fast worse no-skill",
            {"fault": "gradients never zeroed", "optimizer": "SGD", "rate": 0.1},
        ),
        "head alone applied": (
            "unbound no-skill slow", {"fault": "head alone applied", "rate": 2e-4},
        ),
        "frames and bands exchanged": (
            "inputs worse overfit", {"fault": "frames and bands exchanged when evaluated"},
        ),
        "shuffled apart from the labels": (
            "no-skill overfit", {"fault": "shuffled apart from the labels"},
        ),
        "decibels as they are when evaluated": (
            "inputs worse overfit", {"fault": "decibels as they are when evaluated"},
        ),
        "few recordings": ("overfit", {"count": 15, "epochs": 500}),
    },
)  # fmt: skip
