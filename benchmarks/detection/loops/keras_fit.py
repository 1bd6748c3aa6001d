"""Keras on PyTorch, by ``fit`` with its callback, on the tables of tasks."""

from __future__ import annotations

import os
from typing import Any

import torch

from benchmarks.detection.loop import Loop
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training


def train(t: Training, hook: RunHook) -> float:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(t.seed)
    x, y, held_x, held_y = (
        part.numpy() for part in (t.samples.x, t.samples.y, t.samples.held_x, t.samples.held_y)
    )
    if t.samples.y.dtype == torch.long:
        loss, outputs, last = "sparse_categorical_crossentropy", int(y.max()) + 1, "softmax"
    elif set(y.flatten().tolist()) <= {0.0, 1.0}:
        loss, outputs, last = "binary_crossentropy", y.shape[1], "sigmoid"
    else:
        loss, outputs, last = "mse", y.shape[1], None
    k = {"activation": "relu", "last": last, "start": "glorot_uniform", "loss": loss, **t.keras}
    layers: list[Any] = [
        keras.layers.Dense(48, activation=k["activation"], kernel_initializer=k["start"]),
        keras.layers.Dense(48, activation=k["activation"], kernel_initializer=k["start"]),
        keras.layers.Dense(outputs, activation=k["last"]),
    ]
    if "dropout" in k:
        layers.append(keras.layers.Dropout(k["dropout"]))
    model = keras.Sequential([keras.Input(x.shape[1:]), *layers])
    if k.get("frozen"):
        model.trainable = False
    settings = {"weight_decay": t.weight_decay, "clipnorm": t.clip}
    kinds = {
        "adam": "Adam",
        "adamw": "AdamW",
        "sgd": "SGD",
        "momentum": "SGD",
        "rmsprop": "RMSprop",
    }
    if t.optimizer == "momentum":
        settings["momentum"] = 0.9
    optimizer = getattr(keras.optimizers, kinds[t.optimizer])(
        t.rate, **{name: value for name, value in settings.items() if value}
    )
    model.compile(optimizer, k["loss"])
    model.fit(
        x,
        y,
        batch_size=t.batch,
        epochs=max(1, t.steps * t.batch // len(x)),
        validation_data=(held_x[:256], held_y[:256]) if t.evaluations else None,
        validation_batch_size=128,
        shuffle=t.shuffled,
        callbacks=[hook.keras(), *k.get("callbacks", lambda _: [])(keras)],
        verbose=0,
    )
    found = torch.as_tensor(model.predict(held_x, batch_size=256, verbose=0))
    return t.skill(found, t.samples.held_y)


LOOP = Loop(
    train,
    needs=frozenset(["table"]),
    without=frozenset(
        ["counts", "quantiles", "likelihood", "soft_labels", "tuple", "plateau", "imbalanced"]
    ),
    parts=frozenset(["samples", "settings", "keras"]),
)
