"""What goes wrong in trainings: each fault is a change of a sound set-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from benchmarks.detection.training.families import NUMPY, TORCH
from benchmarks.detection.training.setup import Effects, Setup

Half = Literal["tuning", "held out"]
Symptom = Literal[
    "diverges", "does not learn", "activations", "data", "generalises badly", "workers"
]
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
    """A fault of one half of the benchmark, and the rules that name it rather than notice it.

    It is put into trainings of these ``families`` and ``data``; none: all that the half has.
    """

    half: Half
    name: str
    symptom: Symptom
    change: Change
    expected: frozenset[str]
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
    """All faults, those of the tuning half first."""
    goes = "LossDiverging LossSpike LossNotDecreasing LossOscillating LearningRateTooLarge"
    wild = f"{goes} ExplodingTensor GradientExplosion WeightUpdateRatio"
    stuck = "LossNotDecreasing Underfitting"
    slow = f"{stuck} LearningRateTooSmall WeightUpdateRatio UnchangedTensor"
    start = f"{stuck} PoorWeightInitialization TensorVariance AllZero VanishingGradient"
    apart = "Overfit Overtraining"
    saturated = "SaturatedActivation TanhSaturation SigmoidSaturation PoorWeightInitialization"
    tuning: dict[str, tuple[Any, ...]] = {
        "rate × 100": ("diverges", rate(100), wild),
        "summed loss": ("diverges", effect(objective="sum"), wild, PLAIN_DESCENT),
        "huge start": ("diverges", effect(start="huge"), f"{wild} {start} {saturated}"),
        "kept gradients": ("diverges", effect(keeps_gradients=True), wild),
        "zero start": ("does not learn", effect(start="zero"), f"{start} ConstantOutput"),
        "rate ends early": (
            "does not learn",
            effect(stops_at=0.04),
            f"{slow} LearningRateSchedule",
        ),
        "vanishing": ("does not learn", vanishing, f"{start} ConstantOutput", SIGMOIDS),
        "too small": ("does not learn", using(width=1), stuck, PERCEPTRONS, ("digits",)),
        "softmax twice": (
            "does not learn",
            effect(objective="softmax twice"),
            stuck,
            GRADIENTS,
            ("iris", "digits"),
        ),
        "saturated tanh": ("activations", effect(gain=30), saturated, TANHS),
        "inputs scaled twice": (
            "data",
            effect(inputs=1 / 255),
            f"{stuck} NotNormalizedData CheckInputImages",
            (*NUMPY, "mlp norm", "cnn"),
        ),
        "shuffled labels": (
            "data",
            effect(shuffled_labels=True),
            f"{stuck} {apart} ConstantOutput Confusion ClassImbalance",
        ),
        "imbalance": (
            "data",
            effect(imbalance=20),
            "ClassImbalance Confusion ConstantOutput",
            (*GRADIENTS, *TREES),
            ("iris", "digits"),
        ),
        "missing label": (
            "data",
            effect(missing="label"),
            "NonFiniteData ExplodingTensor LossDiverging",
            GRADIENTS,
            NUMBERS,
        ),
        "too long": (
            "generalises badly",
            lambda setup: unregularised(setup, 6),
            apart,
            ("mlp relu", "mlp tanh", "deep relu", "mlp norm"),
            ("diabetes",),
        ),
        "deep trees": (
            "generalises badly",
            using(depth=12, learning_rate=0.6, weight_decay=0.0),
            f"{apart} TreeDepth",
            TREES,
            ("diabetes", "iris", "iris width"),
        ),
        "slow boosting": ("does not learn", rate(1e-3), slow, TREES),
        "own gradients": ("workers", two_workers(workers="own gradients"), "WorkersDisagree"),
        "own start": ("workers", two_workers(workers="own start"), "WorkersDisagree"),
    }
    held_out: dict[str, tuple[Any, ...]] = {
        "flipped gradient": ("diverges", effect(update=-1.0), wild),
        "raw targets": (
            "diverges",
            effect(raw_targets=True),
            f"{wild} {stuck} NotNormalizedData",
            GRADIENTS,
            NUMBERS,
        ),
        "unclipped recurrence": ("diverges", unclipped, wild, ("rnn",)),
        "boosting × 30": ("diverges", rate(30), wild, TREES),
        "rate ÷ 1000": ("does not learn", rate(1e-3), slow),
        "no updates": ("does not learn", effect(update=0.0), f"{slow} FrozenParameters"),
        "constant start": ("does not learn", effect(start="constant"), start),
        "tiny start": ("does not learn", effect(start="tiny"), start, PERCEPTRONS),
        "weight decay": ("does not learn", decaying, f"{stuck} ConstantOutput WeightUpdateRatio"),
        "softmax of one": (
            "does not learn",
            effect(objective="softmax of one"),
            f"{slow} ConstantOutput AllZero VanishingGradient",
            GRADIENTS,
            NUMBERS,
        ),
        "left out": (
            "does not learn",
            effect(left_out=True),
            "FrozenParameters UnchangedTensor",
            ("deep relu", "deep tanh", "cnn", "gru", "rnn", "transformer"),
        ),
        "saturated sigmoid": ("activations", effect(gain=30), saturated, SIGMOIDS),
        "shut relus": ("activations", effect(bias=-4.0), f"DeadRelu {stuck} ConstantOutput", RELUS),
        "raw inputs": (
            "data",
            effect(raw_inputs=True),
            f"{stuck} NotNormalizedData CheckInputImages {wild}",
            (*NUMPY, "cnn"),
            ("wine", "wine proline", "cancer", "patches"),
        ),
        "missing input": (
            "data",
            effect(missing="input"),
            "NonFiniteData ExplodingTensor LossDiverging",
            GRADIENTS,
            (*TABLES, "patches"),
        ),
        "leak": ("data", effect(leak=True), "LossTooGoodTooSoon", GRADIENTS, TABLES),
        "leak into trees": (
            "data",
            effect(leak=True),
            "LossTooGoodTooSoon FeatureImportanceOverweight UnusedFeatures",
            TREES,
            TABLES,
        ),
        "sorted": (
            "data",
            effect(sorted=True),
            f"{wild} {apart} ClassImbalance",
            GRADIENTS,
            ("patches",),
        ),
        "little data": (
            "generalises badly",
            lambda setup: unregularised(setup, 3, samples=24),
            apart,
            ("mlp relu", "mlp tanh", "deep relu", "mlp norm"),
            ("wine proline", "patches"),
        ),
        "stale worker": (
            "workers",
            two_workers(workers="stale"),
            "WorkersDisagree FrozenParameters UnchangedTensor",
        ),
    }
    return (*_faults("tuning", tuning), *_faults("held out", held_out))


def _faults(half: Half, rows: dict[str, tuple[Any, ...]]) -> tuple[Fault, ...]:
    return tuple(
        Fault(half, name, symptom, change, frozenset(expected.split()), *where)
        for name, (symptom, change, expected, *where) in rows.items()
    )


FAULTS = {fault.name: fault for fault in catalogue()}
