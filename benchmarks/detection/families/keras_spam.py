"""Keras on PyTorch: whether a message is spam, by an embedding and a convolution over its words.

Made-up messages are padded to 40 words. Spam has phrases of its own, whose single words are in
other messages too. The skill is Matthews' correlation of what is marked as spam.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from benchmarks.detection.families.kit import begin
from numpy.typing import NDArray
from sklearn.metrics import matthews_corrcoef

from benchmarks.detection.case import cases

WORDS, PHRASES, LENGTH = 300, 12, 40
Array = NDArray[Any]


def messages(count: int, seed: int) -> tuple[Array, Array]:
    """Words (count, LENGTH), padded with 0, and whether each is spam."""
    draw = np.random.default_rng(seed)
    phrases = np.random.default_rng(5).integers(WORDS - 60, WORDS, (PHRASES, 3))
    x, spam = np.zeros((count, LENGTH), dtype="int64"), draw.random(count) < 0.5
    for row in range(count):
        size = draw.integers(10, LENGTH + 1)
        often = (draw.random(size) ** 1.5 * (WORDS - 60)).astype(int) + 1
        x[row, :size] = np.where(draw.random(size) < 0.1, draw.choice(phrases.ravel(), size), often)
        for _ in range(draw.integers(1, 4) if spam[row] else 0):
            at = draw.integers(size - 3)
            x[row, at : at + 3] = phrases[draw.integers(PHRASES)]
    return x, spam.astype("float32")


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 8, batch: int = 32,
    optimizer: str = "Adam", ending: str = "sigmoid", loss: str = "binary_crossentropy",
    dropout: float = 0.0, embedding: str = "", width: int = 16, count: int = 2000,
    callback: str = "", fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    layers = keras.layers
    (x, spam), held, test = (messages(n, seed + 8500 + n) for n in (count, 300, 1000))
    if fault == "words numbered again":
        again = np.concatenate([[0], np.random.default_rng(seed).permutation(WORDS) + 1])
        held, test = (again[held[0]], held[1]), (again[test[0]], test[1])
    if loss == "hinge":
        spam, held = 2 * spam - 1, (held[0], 2 * held[1] - 1)

    table: Any = layers.Embedding(WORDS + 1, width)
    if embedding:  # vectors that were made elsewhere, and stay as they are
        known = np.random.default_rng(seed).standard_normal((WORDS + 1, width))
        table = layers.Embedding(
            WORDS + 1,
            width,
            trainable=False,
            embeddings_initializer=keras.initializers.Constant(
                known if embedding == "fixed" else np.zeros_like(known)
            ),
        )
    two = ending == "softmax of two"
    last = layers.Dense(2 if two else 1, activation="softmax" if two else ending)
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int64"),
            table,
            layers.SpatialDropout1D(dropout),
            layers.Conv1D(32, 3, activation="relu"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(16, activation="relu"),
            last,
        ]
    )
    model.compile(getattr(keras.optimizers, optimizer)(rate), loss, metrics=["accuracy"])
    callbacks: list[Any] = [hook.keras()]
    if callback == "early stopping":
        callbacks.append(keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True))
    model.fit(
        x, spam, batch_size=batch, epochs=epochs, validation_data=held, callbacks=callbacks,
        verbose=0,
    )  # fmt: skip
    found = np.asarray(model.predict(test[0], batch_size=250, verbose=0))
    marked = found.argmax(1) if two else found[:, 0] > (0.0 if loss == "hinge" else 0.5)
    return float(matthews_corrcoef(test[1] > 0.5, marked)) if np.isfinite(found).all() else np.nan


CASES = cases(
    "Keras spam",
    train,
    {
        "plain": {},
        "softmax of two": {"ending": "softmax of two", "loss": "sparse_categorical_crossentropy"},
        "RMSprop with dropout": {"optimizer": "RMSprop", "dropout": 0.3, "epochs": 10},
        "hinge of a tanh": {"ending": "tanh", "loss": "hinge"},
        "early stopping": {"callback": "early stopping", "epochs": 14},
        "fixed vectors of words": {"embedding": "fixed", "width": 64, "rate": 2e-3, "epochs": 10},
    },
    {
        "softmax of one": (
            "softmax-axis no-gradient saturated no-skill collapse",
            {"ending": "softmax"},
        ),
        "loss of several kinds for one unit": (
            "no-gradient probabilities no-skill softmax-axis",
            {"loss": "categorical_crossentropy"},
        ),
        "words numbered again": ("inputs overfit", {"fault": "words numbered again"}),
        "thirty messages": ("overfit", {"count": 30, "epochs": 150}),
        "vectors that were not found": (
            "inputs dead no-gradient no-skill",
            {"embedding": "zeros", "rate": 2e-3},
        ),
    },
)
