"""The nouns that every room shares. Imports nothing of ours."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum

import msgspec

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:  # a training process may be older than what watches it

    class StrEnum(str, Enum):
        __str__ = str.__str__


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


class Bounds(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many elements lie outside an open interval: ``below`` at or under ``low``, ``above`` at
    or over ``high``. A bound of None is none.
    """

    low: float | None = None
    high: float | None = None
    below: int = 0
    above: int = 0


class Channels(msgspec.Struct, frozen=True):
    """Mean and population variance of each channel along ``axis``; None: nothing is finite."""

    axis: int
    mean: tuple[float | None, ...]
    variance: tuple[float | None, ...]


class TensorSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tensor reduced to a few numbers, over its finite elements.

    ``None`` means unknown: not captured, or not a finite number. ``variance`` is the population
    variance; ``l1`` and ``l2`` are vector norms of the flattened tensor. The fields from
    ``quantiles`` on are there where somebody asked for that ``Detail``.
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
    quantiles: Mapping[str, float] | None = None
    bounds: Bounds | None = None
    units: int | None = None
    inactive_units: int | None = None
    unit_active: str | None = None
    channels: Channels | None = None


@dataclass(frozen=True)
class Detail:
    """What a summary is to hold beyond the plain numbers.

    quantiles: of the finite elements, each from 0 to 1; the key is ``str`` of it.
    active: an open interval (None: no bound). Gives ``bounds``; ``units`` along ``unit_axis``,
        those of them that have no element inside (``inactive_units``), and of each unit how many
        elements are inside (``unit_active``: base64 of little-endian uint32).
    unit_axis: the axis of units or channels; None: the second of images (four dimensions or
        more), else the last.
    channel_axis: gives ``channels``.
    """

    quantiles: tuple[float, ...] = ()
    active: tuple[float | None, float | None] | None = None
    unit_axis: int | None = None
    channel_axis: int | None = None


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


TERMINAL_JOB_STATUSES = ("Completed", "Failed", "Stopped")
"""The statuses in which a SageMaker training job is over."""


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
    CHANGED_TOO_LITTLE = "changed_too_little"
    CHANGED_TOO_MUCH = "changed_too_much"
    OUT_OF_RANGE = "out_of_range"
    DIFFERENT = "different"
    LATE = "late"
    IMBALANCED = "imbalanced"
    OSCILLATING = "oscillating"
    CONSTANT = "constant"
    CUSTOM_RULE = "custom_rule"


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
