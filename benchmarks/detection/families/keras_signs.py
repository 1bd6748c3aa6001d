"""Signs beside the road by Keras on PyTorch: a functional model with layers of augmentation.

Arrows to the left, right, up or down, crosses and rings in small colour pictures, in any light. The
model itself turns, shifts and dims pictures in training. The skill is the accuracy, above chance.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, class_skill

from benchmarks.detection.case import cases

SIDE, KINDS = 16, 6


def signs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (count, SIDE, SIDE, 3) in bytes, and the kind of sign of each."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(KINDS, size=count)
    middle = 7.5 + draw.uniform(-1.5, 1.5, (2, count, 1, 1))
    size = draw.uniform(4, 5.5, (count, 1, 1))
    place = np.arange(SIDE)
    across = (place[None, None, :] - middle[0]) / size
    down = (place[None, :, None] - middle[1]) / size
    across, down = np.broadcast_arrays(across, down)

    def arrow(along: np.ndarray, aside: np.ndarray) -> np.ndarray:
        shaft = (abs(aside) < 0.25) & (abs(along) < 0.9)
        head = (along > 0) & (abs(aside) < 0.95 - along)
        return shaft | head

    radius = np.hypot(across, down)
    shapes = np.stack([
        arrow(-across, down), arrow(across, down), arrow(-down, across),
        arrow(down, across),
        (abs(across - down) < 0.35) | (abs(across + down) < 0.35), abs(radius - 0.65) < 0.2,
    ])  # fmt: skip
    shape = shapes[kind, np.arange(count)] & (radius < 1)
    light = draw.uniform(60, 140, (count, 1, 1, 1))
    hue = draw.uniform(-30, 30, (count, 1, 1, 3))
    contrast = draw.uniform(50, 100, (count, 1, 1, 1))
    picture = light + hue + contrast * shape[..., None]
    picture = picture + 14 * draw.standard_normal(picture.shape)
    return picture.clip(0, 255).astype("uint8"), kind


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 6, batch: int = 16,
    optimizer: str = "adam", pooled: str = "flat", norm: bool = True,
    softmax: bool = False, logits: bool = True, flip: str = "",
    frozen: bool = False, noise: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"

    import keras
    from keras import layers

    begin(seed)
    keras.utils.set_random_seed(seed)
    (x, y), (held, held_y), (test, test_y) = (
        signs(n, seed + 140 + i) for i, n in enumerate((1000, 128, 400))
    )
    if fault == "pictures shuffled alone":
        np.random.default_rng(seed).shuffle(x)
    if noise:
        wrong = np.random.default_rng(seed).random(len(y)) < noise
        y = np.where(wrong, np.random.default_rng(seed + 1).integers(KINDS, size=len(y)), y)

    inputs = keras.Input((SIDE, SIDE, 3))
    z = layers.Rescaling(1 / 127.5, offset=-1)(inputs)
    if flip:
        z = layers.RandomFlip(flip)(z)
    z = layers.RandomTranslation(0.08, 0.08, fill_mode="nearest")(z)
    z = layers.RandomContrast(0.2, value_range=(-1, 1))(z)
    for units in (12, 24):
        z = layers.Conv2D(units, 3, padding="same", use_bias=not norm)(z)
        z = layers.BatchNormalization(momentum=0.9)(z) if norm else z
        z = layers.MaxPooling2D()(layers.ReLU()(z))
    body = keras.Model(inputs, z, name="body")
    body.trainable = not frozen
    z = body(inputs)
    if pooled == "mean":
        z = layers.GlobalAveragePooling2D()(layers.Conv2D(32, 3, activation="relu")(z))
    elif pooled == "mean at once":
        z = layers.GlobalAveragePooling2D()(z)
    else:
        z = layers.Dense(32, activation="relu")(layers.Flatten()(z))
    outputs = layers.Dense(KINDS, activation="softmax" if softmax else None)(z)
    model = keras.Model(inputs, outputs)
    kinds: Any = {
        "adam": lambda: keras.optimizers.Adam(rate),
        "nadam": lambda: keras.optimizers.Nadam(rate),
        "sgd": lambda: keras.optimizers.SGD(
            keras.optimizers.schedules.CosineDecay(rate, epochs * len(x) // batch),
            momentum=0.9, nesterov=True,
        ),
    }  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=logits)
    model.compile(kinds[optimizer](), loss, metrics=["accuracy"])
    if fault == "scaled before as well":
        x = x / 255.0
    model.fit(
        x, y, batch_size=batch, epochs=epochs, validation_data=(held, held_y),
        callbacks=[hook.keras()], verbose=0,
    )  # fmt: skip
    found = model.predict(test, verbose=0)
    return class_skill(torch.from_numpy(found), torch.from_numpy(test_y))


CASES = cases(
    "keras signs",
    train,
    {
        "plain": {},
        "softmax in the model": {"softmax": True, "logits": False},
        "one label in ten wrong": {"noise": 0.1, "epochs": 8},
        "mean over places": {"pooled": "mean", "rate": 5e-3, "epochs": 8},
        "SGD by cosine, no norm": {"optimizer": "sgd", "rate": 0.03, "norm": False, "epochs": 9},
    },
    {
        "no softmax, not logits": ("probabilities", {"logits": False}),
        "flipped both ways": ("no-skill", {"flip": "horizontal_and_vertical"}),
        "scaled before as well": ("inputs overfit", {"fault": "scaled before as well"}),
        "pictures shuffled alone": ("no-skill overfit", {"fault": "pictures shuffled alone"}),
        "body frozen": ("unbound no-skill slow", {"frozen": True, "pooled": "mean at once"}),
    },
)
