"""Times trainings with a backend of Keras, and prints them as JSON."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import keras
import numpy as np
from tocsin.watch import Capture, CollectionConfig, Watch
from tocsin_hooks.keras import TocsinCallback

BATCH, BATCHES = 64, 50
SHAPE, CLASSES = (24, 24, 3), 10
ALONE, AGAIN, LOSSES, DEFAULT = "no callback", "no callback again", "losses alone", "default rules"


def build() -> Any:
    """A small convolutional network, and a Dense layer of 295,000 weights."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input(SHAPE),
            layers.Conv2D(16, 3, activation="relu"),
            layers.Conv2D(32, 3, 2, activation="relu"),
            layers.Flatten(),
            layers.Dense(96, "relu"),
            layers.Dense(CLASSES),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


def main(rounds: int, batches: int) -> None:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((batches * BATCH, *SHAPE)).astype(np.float32)
    y = draw.integers(0, CLASSES, len(x))
    with TemporaryDirectory() as folder:
        capture = Capture(collections={"losses": CollectionConfig()})

        def callback(name: str, watch: Watch | None) -> TocsinCallback:
            where = Path(folder, name)
            return TocsinCallback(where, watch, max_overhead=None, close_at_end=False)

        hooked = {
            LOSSES: [callback("losses", Watch(rules=(), capture=capture))],
            DEFAULT: [callback("default", None)],
        }
        callbacks: dict[str, list[Any]] = {ALONE: [], AGAIN: []} | hooked
        models = {name: build() for name in callbacks}
        seconds: dict[str, list[float]] = {name: [] for name in callbacks}
        for turn in range(rounds + 1):
            for name in random.sample(sorted(models), len(models)):
                start = time.perf_counter()
                models[name].fit(
                    x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=callbacks[name]
                )
                if turn:  # the first one compiles
                    seconds[name].append(time.perf_counter() - start)
        for each in hooked.values():
            each[0].hook.close()
    print(json.dumps({"keras": keras.__version__, "seconds": seconds}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
