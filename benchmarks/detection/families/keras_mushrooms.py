"""Keras on PyTorch: kinds of mushrooms in small photographs, by the functional API.

The model rescales bytes itself, and flips and lights them again in layers that work in
training alone. Caps differ in form, spots, gills and colour, in any light, over leaves. The skill
is the accuracy on other pictures, above chance.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill
from numpy.typing import NDArray

from benchmarks.detection.case import cases

SIDE, KINDS = 16, 5
Array = NDArray[Any]


def photographs(count: int, seed: int, share: tuple[float, ...] = (1.0,) * KINDS) -> Any:
    """Bytes (N, SIDE, SIDE, 3), and the kind of each."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.multinomial(torch.tensor(share), count, replacement=True, generator=draw)
    down, across = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")

    def between(low: float, high: float) -> torch.Tensor:
        return low + (high - low) * torch.rand(count, 1, 1, generator=draw)

    y, x, size = between(5, 8), between(6, 9), between(3.5, 5)
    flat = torch.tensor([1.0, 1.0, 0.5, 0.5, 1.5])[kind].view(-1, 1, 1)
    cap = ((down - y) / (size * flat.clamp(max=1.1)) * 1.2) ** 2 + ((across - x) / size) ** 2 < 1
    stem = ((across - x).abs() < 1.3 * flat) & (down > y) & (down < y + 7)
    spotted = torch.tensor([1.0, 0, 0, 1, 0])[kind].view(-1, 1, 1)
    spots = ((down - y) % 3 < 1.2) & ((across - x + 1) % 4 < 1.4)
    colours = [[0.8, 0.3, 0.2], [0.8, 0.35, 0.2], [0.6, 0.55, 0.2], [0.5, 0.35, 0.25]]
    colour = torch.tensor([*colours, [0.75, 0.65, 0.5]])[kind].view(-1, 3, 1, 1)
    colour = colour + 0.04 * torch.randn(count, 3, 1, 1, generator=draw)
    ground = F.interpolate(torch.rand(count, 3, 6, 6, generator=draw), SIDE) * 0.4
    picture = torch.where(stem[:, None], torch.tensor(0.75), ground)
    picture = torch.where(cap[:, None], colour + 0.3 * (spots * spotted)[:, None], picture)
    picture = picture * between(0.7, 1.2)[:, None]
    picture = picture + 0.05 * torch.randn(picture.shape, generator=draw)
    return (picture.clamp(0, 1) * 255).byte().movedim(1, 3).numpy(), kind.numpy()


def build(keras: Any, dropout: float, last: str, fault: str) -> Any:
    layers = keras.layers
    inputs = keras.Input((SIDE, SIDE, 3))
    x = layers.Rescaling(1 / 255)(inputs)
    x = layers.RandomFlip("horizontal")(x)
    if fault == "light in bytes":  # its range of values is that of bytes if nobody says otherwise
        x = layers.RandomBrightness(0.5)(x)
    else:
        x = layers.RandomBrightness(0.1, (0, 1))(x)
    x = layers.Normalization(mean=[0.35] * 3, variance=[0.05] * 3)(x)
    for filters in (12, 24):
        x = layers.Conv2D(filters, 3, padding="same")(x)
        x = layers.BatchNormalization(momentum=0.9)(x)
        x = layers.MaxPooling2D()(layers.Activation("relu")(x))
    x = layers.Flatten()(x)
    x = layers.Dense(32, activation="relu")(x)
    x = layers.Dropout(dropout)(x)
    return keras.Model(inputs, layers.Dense(KINDS, activation=last)(x))


def train(
    seed: int, hook: Any, optimizer: str = "Adam", rate: float = 3e-3, epochs: int = 6,
    batch: int = 16, dropout: float = 0.1, last: str = "softmax", loss: str = "",
    share: tuple[float, ...] = (1.0,) * KINDS, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    x, kind = photographs(800, seed + 9600, share)
    held, held_kind = photographs(100, seed + 9601, share)
    test, test_kind = photographs(600, seed + 9602)
    draw = np.random.default_rng(seed)
    if fault == "pictures and labels shuffled apart":
        draw.shuffle(x)
        draw.shuffle(kind)
    if fault == "rescaled before prediction, too":
        held, test = held / 255, test / 255
    wanted, held_wanted = (np.eye(KINDS, dtype="float32")[of] for of in (kind, held_kind))
    weights = None
    if len(set(share)) > 1:
        weights = {k: len(kind) / KINDS / max(1, (kind == k).sum()) for k in range(KINDS)}
    model = build(keras, dropout, last, fault)
    every: dict[str, Any] = {
        "": lambda: keras.losses.CategoricalCrossentropy(),
        "smooth labels": lambda: keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
    }
    steps = getattr(keras.optimizers, optimizer)(rate)
    model.compile(steps, every[loss](), metrics=["accuracy"])
    model.fit(
        x, wanted, batch_size=batch, epochs=epochs, validation_data=(held, held_wanted),
        class_weight=weights, callbacks=[hook.keras()], verbose=0,
    )  # fmt: skip
    found = torch.as_tensor(model.predict(test, batch_size=200, verbose=0))
    return class_skill(found, torch.as_tensor(test_kind))


CASES = cases(
    "keras mushrooms",
    train,
    {
        "plain": {},
        "smooth labels": {"loss": "smooth labels"},
        "rare kinds weigh more": {"share": (4.0, 4.0, 2.0, 1.0, 1.0), "epochs": 8},
        "AdamW": {"optimizer": "AdamW"},
        "batch of 32": {"batch": 32, "epochs": 10, "rate": 5e-3},
    },
    {
        "pictures and labels shuffled apart": (
            "no-skill overfit", {"fault": "pictures and labels shuffled apart"},
        ),
        "rescaled before prediction, too": (
            "inputs overfit", {"fault": "rescaled before prediction, too"},
        ),
        "light in bytes": ("inputs no-skill", {"fault": "light in bytes"}),
        "relu at the end": ("range dead not-finite no-skill probabilities", {"last": "relu"}),
        "rate of one": ("fast dead no-skill", {"rate": 1.0}),
    },
)  # fmt: skip
