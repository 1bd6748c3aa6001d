"""Train a small network on scikit-learn's handwritten digits with Keras 3, watched by Tocsin.

The two lines are the import and ``callbacks=[…]``. Any backend will do:

    KERAS_BACKEND=jax python examples/digits_keras.py --out runs/healthy
    KERAS_BACKEND=torch python examples/digits_keras.py --out runs/diverging --fault learning-rate
    KERAS_BACKEND=tensorflow python examples/digits_keras.py --out runs/dead --fault dead-relu

With ``learning-rate`` the steps are so long that the loss grows instead of falling. With
``dead-relu`` the biases of the hidden layer begin so far below zero that no unit ever answers:
nothing is learned but how often each digit occurs.
"""

from __future__ import annotations

import argparse

import keras
import numpy as np
from sklearn.datasets import load_digits
from tocsin_hooks import modes
from tocsin_hooks.keras import TocsinCallback

BATCH_SIZE = 64


def network(fault: str) -> keras.Model:
    bias = keras.initializers.Constant(-10.0 if fault == "dead-relu" else 0.0)
    model = keras.Sequential(
        [
            keras.Input((64,), name="pixels"),
            keras.layers.Dense(64, "relu", bias_initializer=bias, name="hidden"),
            keras.layers.Dense(10, name="digit"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(300.0 if fault == "learning-rate" else 0.3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def train(args: argparse.Namespace) -> None:
    keras.utils.set_random_seed(args.seed)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    order = np.random.default_rng(args.seed).permutation(len(images))
    split = len(images) * 4 // 5
    training, test = order[:split], order[split:]

    batches = -(-split // BATCH_SIZE)
    network(args.fault).fit(
        images[training],
        labels[training],
        batch_size=BATCH_SIZE,
        steps_per_epoch=min(batches, args.steps),
        epochs=max(1, args.steps // batches),
        validation_data=(images[test], labels[test]),
        callbacks=[
            TocsinCallback(
                args.out,
                watch=args.watch,
                save_interval={modes.TRAIN: args.save_interval},
                max_overhead=args.max_overhead,
            )
        ],
        verbose=2,
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="where the run goes: a folder or s3://bucket/prefix")
    add("--watch", help="a watch file, for what to capture and which rules to evaluate")
    add("--steps", type=int, default=690, help="batches to train on; whole epochs, at least one")
    add("--fault", choices=["none", "learning-rate", "dead-relu"], default="none")
    add("--seed", type=int, default=0)
    add("--save-interval", type=int, default=10, help="capture every N batches")
    add("--max-overhead", type=float, help="share of the time that capturing may take")
    return parser.parse_args()


if __name__ == "__main__":
    train(arguments())
