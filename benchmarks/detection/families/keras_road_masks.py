"""Keras on PyTorch: which pixels of an aerial picture are road, with a loss function of one's own.

Fields of many colours, with a road or two across, straight or bent, grey as some roofs are. The
network halves the picture twice and goes back. The skill is the Jaccard index on other pictures,
above that of calling everything a road.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin

from benchmarks.detection.case import cases

SIDE = 16


def pictures(count: int, seed: int) -> tuple[Any, Any]:
    """Pictures (N, SIDE, SIDE, 3) from 0 to 1, and masks (N, SIDE, SIDE, 1)."""
    draw = torch.Generator().manual_seed(seed)
    down, across = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    road = torch.zeros(count, SIDE, SIDE)
    for _ in range(2):
        turn, middle, bend, there = torch.rand(4, count, 1, 1, generator=draw)
        x, y = across - 4 - 8 * middle, down - 8.0
        turn = torch.pi * turn
        away = x * turn.cos() + y * turn.sin()
        along = y * turn.cos() - x * turn.sin()
        inside = (away + 0.06 * (bend - 0.5) * along**2).abs() < 1.4
        road = road.maximum((inside & (there < 0.75)).float())
    ground = F.interpolate(torch.rand(count, 3, 4, 4, generator=draw), SIDE)
    picture = torch.tensor([0.3, 0.5, 0.25]).view(3, 1, 1) * (0.5 + ground)
    roof = (F.interpolate(torch.rand(count, 1, 5, 5, generator=draw), SIDE) < 0.06).float()
    grey = road[:, None].maximum(roof)
    shade = 0.4 + 0.2 * torch.rand(count, 1, 1, 1, generator=draw)
    picture = torch.where(grey > 0, shade, picture)
    picture = picture + 0.06 * torch.randn(picture.shape, generator=draw)
    return picture.movedim(1, 3).numpy(), road[..., None].numpy()


def build(keras: Any, last: str) -> Any:
    layers = keras.layers

    def block(x: Any, filters: int) -> Any:
        x = layers.Conv2D(filters, 3, padding="same")(x)
        return layers.Activation("relu")(layers.BatchNormalization(momentum=0.9)(x))

    inputs = keras.Input((SIDE, SIDE, 3))
    one = block(inputs, 8)
    two = block(layers.MaxPooling2D()(one), 16)
    deep = block(layers.MaxPooling2D()(two), 24)
    x = block(layers.Concatenate()([layers.UpSampling2D()(deep), two]), 16)
    x = block(layers.Concatenate()([layers.UpSampling2D()(x), one]), 8)
    return keras.Model(inputs, layers.Conv2D(1, 1, activation=last)(x))


def loss_of(keras: Any, kind: str) -> Any:
    """What compile() gets: a function of the mask and of what was found."""
    ops = keras.ops

    def jaccard(mask: Any, found: Any) -> Any:
        both = ops.sum(mask * found, axis=(1, 2, 3))
        either = ops.sum(mask + found, axis=(1, 2, 3)) - both
        return (both + 1.0) / (either + 1.0)

    def dice(mask: Any, found: Any) -> Any:
        both = ops.sum(mask * found, axis=(1, 2, 3))
        return (2 * both + 1.0) / (ops.sum(mask + found, axis=(1, 2, 3)) + 1.0)

    def mixed(mask: Any, found: Any) -> Any:
        cross = keras.losses.binary_crossentropy(mask, found)
        return 1 - dice(mask, found) + ops.mean(cross, axis=(1, 2))

    return {
        "Jaccard": lambda mask, found: 1 - jaccard(mask, found),
        "negative Jaccard": lambda mask, found: -jaccard(mask, found),
        "coefficient itself": jaccard,
        "rounded": lambda mask, found: 1 - jaccard(mask, ops.round(found)),
        "Dice and cross entropy": mixed,
        "logarithm": lambda mask, found: -ops.log(jaccard(mask, found)),
    }[kind]


def train(
    seed: int, hook: Any, loss: str = "Jaccard", rate: float = 4e-3, epochs: int = 8,
    batch: int = 16, last: str = "sigmoid", patience: int = 0, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    x, mask = pictures(640, seed + 10100)
    held, held_mask = pictures(96, seed + 10101)
    test, test_mask = pictures(400, seed + 10102)
    if fault == "turned by other seeds":  # as two generators do that have not the same seed
        for part, own in ((x, 1), (mask, 2)):
            draw = np.random.default_rng(own)
            for row in range(len(part)):
                part[row] = np.rot90(part[row], int(draw.integers(4)))
    if fault == "bytes in evaluation":
        held, test = held * 255, test * 255
    model = build(keras, last)
    model.compile(keras.optimizers.Adam(rate), loss_of(keras, loss))
    stop = keras.callbacks.EarlyStopping(patience=patience or epochs, restore_best_weights=True)
    model.fit(
        x, mask, batch_size=batch, epochs=epochs, validation_data=(held, held_mask),
        callbacks=[hook.keras(), *[stop] * (patience > 0)], verbose=0,
    )  # fmt: skip
    found = model.predict(test, batch_size=100, verbose=0) > 0.5
    index = (found * test_mask).sum() / np.maximum(found, test_mask).sum()
    every = test_mask.mean()
    return float((index - every) / (1 - every))


CASES = cases(
    "keras road masks",
    train,
    {
        "plain": {},
        "negative Jaccard": {"loss": "negative Jaccard"},
        "logarithm of the index": {"loss": "logarithm"},
        "Dice and cross entropy": {"loss": "Dice and cross entropy"},
        "stopped early": {"epochs": 10, "patience": 3},
    },
    {
        "softmax of one channel": ("softmax-axis no-skill no-gradient", {"last": "softmax"}),
        "turned by other seeds": ("no-skill overfit", {"fault": "turned by other seeds"}),
        "rounded in the loss": ("no-gradient unbound no-skill", {"loss": "rounded"}),
        "coefficient itself": ("worse no-skill", {"loss": "coefficient itself"}),
        "bytes in evaluation": ("inputs overfit", {"fault": "bytes in evaluation"}),
    },
)
