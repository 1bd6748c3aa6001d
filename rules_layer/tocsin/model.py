"""The nouns that every room shares. Imports nothing of ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import msgspec


class Mode(IntEnum):
    """The phase a step belongs to. GLOBAL counts the steps of all phases together."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4


class Role(StrEnum):
    """What a tensor is to the model, whatever a framework calls it."""

    LOSS = "loss"
    METRIC = "metric"
    WEIGHT = "weight"
    BIAS = "bias"
    GRADIENT = "gradient"
    ACTIVATION_INPUT = "activation_input"
    ACTIVATION_OUTPUT = "activation_output"
    INPUT = "input"
    LABEL = "label"
    PREDICTION = "prediction"
    TREE = "tree"
    FEATURE_IMPORTANCE = "feature_importance"
    LEARNING_RATE = "learning_rate"


COLLECTION_ROLES = {
    "losses": Role.LOSS,
    "metrics": Role.METRIC,
    "sm_metrics": Role.METRIC,
    "weights": Role.WEIGHT,
    "biases": Role.BIAS,
    "gradients": Role.GRADIENT,
    "activation_inputs": Role.ACTIVATION_INPUT,
    "activation_outputs": Role.ACTIVATION_OUTPUT,
    "relu_input": Role.ACTIVATION_INPUT,
    "relu_output": Role.ACTIVATION_OUTPUT,
    "inputs": Role.INPUT,
    "labels": Role.LABEL,
    "predictions": Role.PREDICTION,
    "outputs": Role.PREDICTION,
    "trees": Role.TREE,
    "feature_importance": Role.FEATURE_IMPORTANCE,
    "learning_rates": Role.LEARNING_RATE,
}
"""What the collections of that name hold, smdebug's and ours. Of a tensor in several the first
counts: XGBoost's losses are metrics, too, and the output of a ReLU may be the model's.
"""


class TensorSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tensor reduced to a few numbers, over its finite elements.

    ``None`` means unknown: not captured, or not a finite number. ``variance`` is the population
    variance; ``l1`` and ``l2`` are vector norms of the flattened tensor.
    """

    size: int | None = None
    nan: int | None = None
    posinf: int | None = None
    neginf: int | None = None
    zeros: int | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    abs_mean: float | None = None
    variance: float | None = None
    l1: float | None = None
    l2: float | None = None
    update_l1: float | None = None
    update_l2: float | None = None
    fingerprint: str | None = None


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


TERMINAL_JOB_STATUSES = ("Completed", "Failed", "Stopped")
"""The statuses in which a SageMaker training job is over."""

METRIC_NAMESPACE = "Tocsin"
"""Where all metrics lie in CloudWatch."""


class RuleStatus(StrEnum):
    IN_PROGRESS = "InProgress"
    NO_ISSUES_FOUND = "NoIssuesFound"
    ISSUES_FOUND = "IssuesFound"
    NOT_APPLICABLE = "NotApplicable"
    ERROR = "Error"
    STOPPED = "Stopped"


class Outcome(StrEnum):
    """UNDECIDED: its tensors are there, but more of them are needed (or it is not yet time)."""

    HEALTHY = "healthy"
    VIOLATION = "violation"
    UNDECIDED = "undecided"
    NOT_APPLICABLE = "not_applicable"


class Reason(StrEnum):
    """Why a verdict is what it is."""

    WITHIN_BOUNDS = "within_bounds"
    TOO_EARLY = "too_early"
    NO_TENSOR = "no_tensor"
    NO_SUMMARY = "no_summary"
    BELOW_THRESHOLD = "below_threshold"
    ABOVE_THRESHOLD = "above_threshold"
    NOT_FINITE = "not_finite"
    NOT_DECREASING = "not_decreasing"
    INCREASING = "increasing"


Evidence = Mapping[str, float | int | str]


@dataclass(frozen=True)
class Verdict:
    """What a rule says of one step, and the numbers that decided."""

    outcome: Outcome
    reason: Reason
    detail: str = ""
    tensor: str | None = None
    worker: str | None = None
    evidence: Evidence = field(default_factory=dict)

    @property
    def violation(self) -> bool:
        return self.outcome is Outcome.VIOLATION


def json_number(value: float | int | str) -> float | int | str:
    """``value`` as JSON can carry it: NaN and infinities become strings."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
