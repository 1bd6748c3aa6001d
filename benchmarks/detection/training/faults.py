"""Faults of trainings: each one changes a sound set-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.detection.training.families import NUMPY, TORCH
from benchmarks.detection.training.setup import Effects, Setup

Change = Callable[[Setup], Setup]

GRADIENTS = (*NUMPY, *TORCH)
PERCEPTRONS = tuple(family for family in NUMPY if family != "linear")
PLAIN_DESCENT = ("linear", "mlp relu", "mlp tanh")
SIGMOIDS, TANHS = ("mlp sigmoid",), ("mlp tanh", "deep tanh")
RELUS = ("mlp relu", "deep relu", "cnn")
TREES = ("xgboost",)
NUMBERS = ("diabetes", "iris width", "wine proline", "cancer area")
CLASSES = ("iris", "digits", "wine", "cancer", "patches")
TABLES = ("iris", "wine", "cancer", *NUMBERS)


@dataclass(frozen=True)
class Fault:
    """A change that does harm, and the causes that name it (see causes.py).

    It is put into trainings of these ``families`` and ``data``; none: all that there are.
    """

    name: str
    change: Change
    causes: str
    families: tuple[str, ...] = GRADIENTS
    data: tuple[str, ...] = ()

    def __call__(self, setup: Setup) -> Setup:
        return replace(self.change(setup), fault=self.name)

    def fits(self, setup: Setup) -> bool:
        return setup.family in self.families and (not self.data or setup.data in self.data)


def effect(**effects: Any) -> Change:
    """The set-up, with these effects."""
    return lambda setup: replace(setup, effects=Effects(**effects))


def rate(factor: float) -> Change:
    return lambda setup: replace(setup, learning_rate=setup.learning_rate * factor)


def using(**changes: Any) -> Change:
    return lambda setup: replace(setup, **changes)


def two_workers(**effects: Any) -> Change:
    return lambda setup: replace(setup, workers=2, effects=Effects(**effects))


def decaying(setup: Setup) -> Setup:
    """A tenth of every weight is lost in each step."""
    return replace(setup, weight_decay=0.1 / setup.learning_rate)


def unclipped(setup: Setup) -> Setup:
    """A recurrent network whose state grows, with nothing to hold its gradients."""
    effects = Effects(gain=2.5, gain_of="weight_hh")
    return replace(setup, clip=None, optimizer="sgd", learning_rate=0.1, effects=effects)


def unregularised(setup: Setup, epochs: int, **effects: Any) -> Setup:
    """A larger model for longer, without weight decay and dropout."""
    return replace(
        setup,
        weight_decay=0.0,
        dropout=0.0,
        width=64,
        steps=epochs * setup.steps,
        save_interval=epochs * setup.save_interval,
        effects=Effects(**effects),
    )


def vanishing(setup: Setup) -> Setup:
    """Many layers of sigmoids, each of which lets little of the gradient through."""
    return replace(setup, layers=7, optimizer="sgd", effects=Effects(gain=0.25))


def catalogue() -> tuple[Fault, ...]:
    rows: dict[str, tuple[Any, ...]] = {
        "rate × 100": (rate(100), "worse fast"),
        "summed loss": (effect(objective="sum"), "worse fast", PLAIN_DESCENT),
        "huge start": (effect(start="huge"), "worse fast no-skill dead collapse saturated"),
        "kept gradients": (effect(keeps_gradients=True), "worse fast"),
        "zero start": (effect(start="zero"), "no-skill dead collapse"),
        "rate ends early": (
            effect(stops_at=0.04),
            "slow no-skill schedule",
        ),
        "vanishing": (vanishing, "no-skill dead collapse", SIGMOIDS),
        "too small": (using(width=1), "no-skill", PERCEPTRONS, ("digits",)),
        "softmax twice": (
            effect(objective="softmax twice"),
            "no-skill",
            GRADIENTS,
            ("iris", "digits"),
        ),
        "saturated tanh": (effect(gain=30), "saturated", TANHS),
        "inputs scaled twice": (
            effect(inputs=1 / 255),
            "no-skill inputs",
            (*NUMPY, "mlp norm", "cnn"),
        ),
        "shuffled labels": (
            effect(shuffled_labels=True),
            "no-skill overfit collapse imbalance",
        ),
        "imbalance": (
            effect(imbalance=20),
            "imbalance collapse",
            (*GRADIENTS, *TREES),
            ("iris", "digits"),
        ),
        "missing label": (
            effect(missing="label"),
            "not-finite worse",
            GRADIENTS,
            NUMBERS,
        ),
        "too long": (
            lambda setup: unregularised(setup, 6),
            "overfit",
            ("mlp relu", "mlp tanh", "deep relu", "mlp norm"),
            ("diabetes",),
        ),
        "deep trees": (
            using(depth=12, learning_rate=0.6, weight_decay=0.0),
            "overfit trees",
            TREES,
            ("diabetes", "iris", "iris width"),
        ),
        "slow boosting": (rate(1e-3), "slow no-skill", TREES),
        "own gradients": (two_workers(workers="own gradients"), "workers"),
        "own start": (two_workers(workers="own start"), "workers"),
        "flipped gradient": (effect(update=-1.0), "worse fast"),
        "raw targets": (
            effect(raw_targets=True),
            "worse fast no-skill inputs",
            GRADIENTS,
            NUMBERS,
        ),
        "unclipped recurrence": (unclipped, "worse fast", ("rnn",)),
        "boosting × 30": (rate(30), "worse fast", TREES),
        "rate ÷ 1000": (rate(1e-3), "slow no-skill"),
        "no updates": (effect(update=0.0), "slow no-skill unbound"),
        "constant start": (effect(start="constant"), "no-skill dead collapse"),
        "tiny start": (effect(start="tiny"), "no-skill dead collapse", PERCEPTRONS),
        "weight decay": (decaying, "no-skill collapse slow"),
        "softmax of one": (
            effect(objective="softmax of one"),
            "slow no-skill collapse dead",
            GRADIENTS,
            NUMBERS,
        ),
        "left out": (
            effect(left_out=True),
            "unbound slow",
            ("deep relu", "deep tanh", "cnn", "gru", "rnn", "transformer"),
        ),
        "saturated sigmoid": (effect(gain=30), "saturated", SIGMOIDS),
        "shut relus": (effect(bias=-4.0), "dead no-skill collapse", RELUS),
        "raw inputs": (
            effect(raw_inputs=True),
            "no-skill inputs worse fast",
            (*NUMPY, "cnn"),
            ("wine", "wine proline", "cancer", "patches"),
        ),
        "missing input": (
            effect(missing="input"),
            "not-finite worse",
            GRADIENTS,
            (*TABLES, "patches"),
        ),
        "leak": (effect(leak=True), "leak", GRADIENTS, TABLES),
        "leak into trees": (
            effect(leak=True),
            "leak trees",
            TREES,
            TABLES,
        ),
        "sorted": (
            effect(sorted=True),
            "worse fast overfit imbalance",
            GRADIENTS,
            ("patches",),
        ),
        "little data": (
            lambda setup: unregularised(setup, 3, samples=24),
            "overfit",
            ("mlp relu", "mlp tanh", "deep relu", "mlp norm"),
            ("wine proline", "patches"),
        ),
        "stale worker": (
            two_workers(workers="stale"),
            "workers unbound slow",
        ),
    }
    return tuple(Fault(name, *row) for name, row in rows.items())
