"""Keras on PyTorch, by ``fit`` with its callback; there are no inputs and no labels in the run."""

from __future__ import annotations

import os
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, class_skill, normal, with_noise

from benchmarks.detection.case import cases

SIZE, KINDS = 16, 5


def train(
    seed: int,
    hook: Any,
    rate: float = 2e-3,
    epochs: int = 8,
    batch: int = 32,
    activation: str = "relu",
    loss: str = "sparse_categorical_crossentropy",
    noise: float = 0.0,
    dropout: float = 0.0,
    weights: bool = False,
    fault: str = "",
    optimizer: str = "adam",
    cosine: bool = False,
) -> float:
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    mixing, kinds = normal(SIZE, 5, seed=61), normal(5, KINDS, seed=62)
    count = 60 if fault == "memorises" else 4000
    x, held = normal(count, SIZE, seed=seed + 160), normal(1000, SIZE, seed=seed + 161)
    y, held_y = ((torch.tanh(part @ mixing / 2) @ kinds).argmax(1) for part in (x, held))
    if fault == "shuffled" or noise:
        y = with_noise(y, noise or 1.0, seed)
    if fault == "scaled evaluation":
        held = held * 255
    if fault == "not a number":
        x[777, 3] = float("nan")
    if fault == "sorted":
        x, y = x[y.argsort()], y[y.argsort()]
    start = "zeros" if fault == "zero start" else "glorot_uniform"
    layers: list[Any] = [keras.Input((SIZE,))]
    if fault == "scaled":
        layers.append(keras.layers.Rescaling(1000.0))
    for _ in range(2):
        layers.append(keras.layers.Dense(48, activation, kernel_initializer=start))
        if dropout:
            layers.append(keras.layers.Dropout(dropout))
    layers.append(keras.layers.Dense(KINDS, None if fault == "scores" else "softmax"))
    if fault == "softmax twice":
        layers.append(keras.layers.Softmax())
    model = keras.Sequential(layers)
    steps = epochs * len(x) // batch
    speed: Any = keras.optimizers.schedules.CosineDecay(rate, steps) if cosine else rate
    chosen = keras.optimizers.get({"class_name": optimizer, "config": {"learning_rate": speed}})
    if fault == "frozen":
        for layer in model.layers:
            layer.trainable = False
        model.layers[0].trainable = True
    model.compile(chosen, loss, metrics=["accuracy"])
    model.fit(
        x.numpy(),
        y.numpy()[:, None],
        batch,
        epochs,
        validation_data=(held.numpy(), held_y.numpy()[:, None]),
        class_weight=dict.fromkeys(range(KINDS), 2.0) if weights else None,
        callbacks=[hook.keras()],
        shuffle=fault != "sorted",
        verbose=0,
    )
    return class_skill(torch.as_tensor(model.predict(held.numpy(), verbose=0)), held_y)


CASES = cases(
    "keras classifier",
    train,
    {
        "plain": {},
        "classes weighted": {"weights": True},
        "tanh": {"activation": "tanh"},
        "cosine": {"cosine": True, "rate": 4e-3},
        "dropout": {"dropout": 0.1, "epochs": 12},
        "batch of eight": {"batch": 8, "epochs": 4, "rate": 1e-3},
    },
    {
        "labels shuffled": ("no-skill overfit", {"fault": "shuffled"}),
        "scores as probabilities": (
            "probabilities no-skill worse not-finite",
            {"fault": "scores", "rate": 1e-2},
        ),
        "squares of labels": ("no-skill range collapse", {"loss": "mean_squared_error"}),
        "zero start": ("dead no-skill collapse no-gradient", {"fault": "zero start"}),
        "evaluation x 255": ("inputs overfit", {"fault": "scaled evaluation"}),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "memorises 60": ("overfit", {"fault": "memorises", "epochs": 250}),
        "rate x 1000": ("fast no-skill dead", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)
