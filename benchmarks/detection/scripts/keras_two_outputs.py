"""Keras on PyTorch: one body, a number and a kind, with a ``train_step`` of its own or without."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, normal
from benchmarks.detection.skill import class_skill, explained

SIZE, KINDS = 14, 3


def samples(count: int, seed: int) -> tuple[Any, Any, Any]:
    x = normal(count, SIZE, seed=seed)
    hidden = torch.tanh(x @ normal(SIZE, 5, seed=71) / 2)
    number = (hidden @ normal(5, 1, seed=72)) + 0.5 * hidden[:, :1] * hidden[:, 1:2]
    kind = (hidden @ normal(5, KINDS, seed=73)).argmax(1)
    return x.numpy(), (number + 0.1 * normal(count, 1, seed=seed + 1)).numpy(), kind.numpy()


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 8, batch: int = 40,
    weights: tuple[float, float] = (1.0, 1.0), own_step: bool = False, unit: float = 1.0,
    clip: float | None = None, decay: bool = False, noise: float = 0.0, rows_used: int = 4000,
    stops: bool = False, fault: str = "",
) -> float:  # fmt: skip
    os.environ["KERAS_BACKEND"] = "torch"
    begin(seed)
    import keras

    keras.utils.set_random_seed(seed)
    x, number, kind = (part[:rows_used] for part in samples(4000, seed + 580))
    held, held_number, held_kind = samples(1000, seed + 582)
    draw = np.random.default_rng(seed)
    if fault == "targets of the row before":
        number, kind = np.roll(number, 1, 0), np.roll(kind, 1, 0)
    if fault == "each column by its row":  # the wrong axis; nothing of the size is left
        x, held = (np.sign(part - part) + part.mean(1, keepdims=True) for part in (x, held))
    if fault == "evaluation in other units":
        held = held * 60 + 30
    if fault == "not a number":
        number = number.copy()
        number[1234] = np.nan
    if noise:
        kind = np.where(draw.random(len(kind)) < noise, draw.integers(KINDS, size=len(kind)), kind)
    entry = keras.Input((SIZE,), name="row")
    hidden = entry
    for width in (64, 48):
        hidden = keras.layers.Dense(
            width,
            "relu",
            bias_initializer=keras.initializers.Constant(-30.0 if fault == "dead units" else 0.0),
        )(hidden)
    if fault == "gradient stopped":
        hidden = keras.layers.Lambda(lambda value: value.detach())(hidden)
    outputs = {
        "number": keras.layers.Dense(
            1, "relu" if fault == "never negative" else None, name="number"
        )(hidden),
        "kind": keras.layers.Dense(KINDS, "softmax", name="kind")(hidden),
    }

    class Own(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            rows, wanted = data[:2]
            if fault != "gradients kept":
                self.zero_grad()
            found = self(rows, training=True)
            error = found["number"].flatten() if fault == "each against all" else found["number"]
            squares = ((error - wanted["number"]) ** 2).mean()
            labels = wanted["kind"].long().reshape(-1, 1)
            cross = -found["kind"].clamp(min=1e-7).log().gather(1, labels).mean()
            loss = weights[0] * squares + weights[1] * cross
            (-loss if fault == "wrong sign" else loss).backward()
            variables = list(self.trainable_weights)
            with torch.no_grad():
                self.optimizer.apply([v.value.grad for v in variables], variables)
            return {"loss": loss, "squares": squares}

    by_hand = own_step or fault in ("gradients kept", "each against all", "wrong sign")
    model = (Own if by_hand else keras.Model)(entry, outputs)
    steps = epochs * len(x) // batch
    speed = keras.optimizers.schedules.CosineDecay(rate, steps) if decay else rate
    optimizer = (
        keras.optimizers.SGD(speed, momentum=0.9)
        if fault == "gradients kept"
        else keras.optimizers.Adam(speed, clipnorm=clip)
    )
    model.compile(
        optimizer,
        {"number": "mean_squared_error", "kind": "sparse_categorical_crossentropy"},
        loss_weights={"number": weights[0], "kind": weights[1]},
    )
    callbacks = [hook.keras()]
    if stops:
        callbacks.append(keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True))
    model.fit(
        x, {"number": unit * number, "kind": kind[:, None]}, batch, epochs, verbose=0,
        validation_data=(held, {"number": unit * held_number, "kind": held_kind[:, None]}),
        callbacks=callbacks,
    )  # fmt: skip
    found = {name: torch.as_tensor(v) for name, v in model.predict(held, verbose=0).items()}
    right = class_skill(found["kind"], torch.as_tensor(held_kind))
    return (right + max(-1.0, explained(found["number"] / unit, torch.as_tensor(held_number)))) / 2


CASES = cases(
    "keras two outputs",
    train,
    {
        "plain": {},
        "a train_step of its own": {"own_step": True},
        "numbers x 100, weighted": {"unit": 100.0, "weights": (1e-3, 1.0), "epochs": 10},
        "clipped": {"clip": 0.1},
        "cosine": {"decay": True, "rate": 6e-3},
        "early stopping": {"stops": True, "epochs": 20},
        "batch of ten": {"batch": 10, "epochs": 4, "rate": 1e-3},
        "some kinds wrong": {"noise": 0.05},
    },
    {
        "targets of the row before": ("no-skill overfit", {"fault": "targets of the row before"}),
        "numbers x 1000 drown the kinds": ("no-skill", {"unit": 1000.0, "rate": 1e-3}),
        "rows averaged": ("inputs no-skill", {"fault": "each column by its row"}),
        "evaluation in other units": ("inputs overfit", {"fault": "evaluation in other units"}),
        "numbers never negative": ("range dead", {"fault": "never negative"}),
        "dead units": ("dead no-gradient no-skill", {"fault": "dead units"}),
        "gradient stopped": ("no-gradient unbound", {"fault": "gradient stopped", "rate": 3e-4}),
        "gradients kept": (
            "kept-gradients fast worse not-finite",
            {"fault": "gradients kept", "rate": 0.05},
        ),
        "wrong sign": ("worse not-finite", {"fault": "wrong sign"}),
        "each against all": ("broadcast no-skill", {"fault": "each against all"}),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "memorises 60": ("overfit", {"rows_used": 60, "epochs": 250}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6, "epochs": 5}),
    },
)
