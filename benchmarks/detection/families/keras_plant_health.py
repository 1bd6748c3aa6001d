"""Keras on PyTorch: plants' health from a picture of a leaf and from numbers of the pot.

Spots on the leaf tell of a fungus, pale leaves of hunger or of too much water: which of both, only
the moisture and the salts in the pot say. Four kinds; the skill is the mean recall, above chance.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import balanced_skill, begin
from numpy.typing import NDArray

from benchmarks.detection.case import cases

SIDE, KINDS = 12, 4
Array = NDArray[Any]


def plants(count: int, seed: int) -> dict[str, Array]:
    """Pictures (N, SIDE, SIDE, 3) of 0 to 255, numbers (N, 4), and kinds: healthy, fungus, …"""
    draw = np.random.default_rng(seed)
    kind = draw.choice(KINDS, count, p=[0.4, 0.2, 0.2, 0.2])
    pale = (kind >= 2)[:, None, None, None]
    colour = np.array([70.0, 130, 60]) + pale * np.array([60.0, 25, 10])
    light = draw.uniform(0.8, 1.2, (count, 1, 1, 1))
    picture = colour * light + 14 * draw.standard_normal((count, SIDE, SIDE, 3))
    spots = draw.random((count, SIDE, SIDE, 1)) < 0.09 * (kind == 1)[:, None, None, None]
    picture = np.where(spots, 40.0, picture)
    moisture = np.where(kind == 3, 70, 40) + 9 * draw.standard_normal(count)
    salts = np.where(kind == 2, 400, 900) + 150 * draw.standard_normal(count)
    warmth, acid = 22 + 4 * draw.standard_normal(count), 6.3 + 0.4 * draw.standard_normal(count)
    numbers = np.column_stack([moisture, salts, warmth, acid])
    return {"picture": picture.clip(0, 255), "numbers": numbers, "kind": kind}


def build(keras: Any, dropout: float, norm: bool, fault: str) -> Any:
    layers = keras.layers
    picture = keras.Input((SIDE, SIDE, 3), name="picture")
    numbers = keras.Input((4,), name="numbers")
    h = layers.Conv2D(8, 3, padding="same", activation="relu")(picture)
    h = layers.MaxPooling2D()(h)
    h = layers.Conv2D(12, 3, padding="same", activation="relu")(h)
    h = layers.GlobalAveragePooling2D()(h)
    if norm:
        h = layers.BatchNormalization(momentum=0.9)(h)
    n = layers.Dense(12, activation="relu")(numbers)
    both = layers.Concatenate()([h, n])
    both = layers.Dense(32, activation="relu")(both)
    both = layers.Dropout(dropout)(both)
    final = None if fault == "no softmax at the end" else "softmax"
    if fault == "one output":
        return keras.Model([picture, numbers], layers.Dense(1, activation="softmax")(both))
    return keras.Model([picture, numbers], layers.Dense(KINDS, activation=final)(both))


def train(
    seed: int, hook: Any, optimizer: str = "Adam", rate: float = 4e-3, epochs: int = 16,
    batch: int = 32, dropout: float = 0.3, norm: bool = False, count: int = 1500,
    patience: int = 5, smoothing: float = 0.0, noise: float = 0.0,
    fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    known, held, test = (plants(n, seed + 37100 + at) for at, n in enumerate((count, 300, 1000)))
    draw = np.random.default_rng(seed)
    kind = known["kind"]
    if noise:
        kind = np.where(draw.random(count) < noise, draw.integers(0, KINDS, count), kind)
    if fault == "pictures in another order":  # the folder's listing and the table differ
        other = draw.permutation(count)
        known["picture"], known["numbers"] = known["picture"][other], known["numbers"][other]
    mean, spread = known["numbers"].mean(0), known["numbers"].std(0)

    def inputs(of: dict[str, Array], later: bool = False) -> dict[str, Array]:
        numbers = (of["numbers"] - mean) / spread
        picture = of["picture"] / 255
        if later and fault == "bytes when used":
            picture = of["picture"]
        if later and fault == "numbers as measured when used":
            numbers = of["numbers"]
        return {"picture": picture.astype("float32"), "numbers": numbers.astype("float32")}

    model = build(keras, dropout, norm, fault)
    loss: Any = keras.losses.SparseCategoricalCrossentropy()
    wanted, held_wanted = kind, held["kind"]
    if smoothing:
        loss = keras.losses.CategoricalCrossentropy(label_smoothing=smoothing)
        wanted, held_wanted = np.eye(KINDS)[wanted], np.eye(KINDS)[held_wanted]
    if fault == "one output":
        loss = "binary_crossentropy"
    model.compile(getattr(keras.optimizers, optimizer)(learning_rate=rate), loss)
    watched = {"monitor": "val_loss", "mode": "max" if fault == "largest loss is best" else "min"}
    stop = keras.callbacks.EarlyStopping(patience=patience, restore_best_weights=True, **watched)
    model.fit(
        inputs(known), wanted, batch_size=batch, epochs=epochs, verbose=0,
        validation_data=(inputs(held, True), held_wanted), validation_batch_size=300,
        callbacks=[hook.keras(), stop],
    )  # fmt: skip
    found = model.predict(inputs(test, True), batch_size=500, verbose=0)
    return balanced_skill(torch.as_tensor(found), torch.as_tensor(test["kind"]))


CASES = cases(
    "keras plant health",
    train,
    {
        "plain": {},
        "batch norm, no dropout": {"norm": True, "dropout": 0.0},
        "labels smoothed": {"smoothing": 0.15},
        "gardeners err": {"noise": 0.08, "patience": 16},
    },
    {
        "pictures in another order": ("no-skill overfit", {"fault": "pictures in another order"}),
        "one output": ("probabilities range no-skill", {"fault": "one output"}),
        "no softmax at the end": (
            "probabilities no-skill worse", {"fault": "no softmax at the end"},
        ),
        "bytes when used": ("inputs overfit", {"fault": "bytes when used"}),
        "numbers as measured when used": (
            "inputs overfit", {"fault": "numbers as measured when used"},
        ),
        "largest loss is best": ("slow schedule", {"fault": "largest loss is best", "rate": 5e-4}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
    },
)  # fmt: skip
