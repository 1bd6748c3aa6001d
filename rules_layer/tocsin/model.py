"""The types that every package shares. Imports no other module of Tocsin."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:  # a training process may have an older Python

    class StrEnum(str, Enum):
        __str__ = str.__str__


T = TypeVar("T")


class Mode(IntEnum):
    """The phase a step belongs to. GLOBAL counts the steps of all phases together."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4


class Role(StrEnum):
    """The part of a tensor in the model, under any name of a framework."""

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
    OBJECTIVE = "objective"
    SKILL = "skill"
    CONTRACT = "contract"
    SPREAD = "spread"
    SAMPLE = "sample"
    COLUMN = "column"
    INTERVAL = "interval"
    UPDATES = "updates"
    SYSTEM = "system"
    DURATION = "duration"


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
    "objectives": Role.OBJECTIVE,
    "skills": Role.SKILL,
    "contracts": Role.CONTRACT,
    "spreads": Role.SPREAD,
    "samples": Role.SAMPLE,
    "columns": Role.COLUMN,
    "intervals": Role.INTERVAL,
    "updates": Role.UPDATES,
}
"""The role of the tensors of each collection, smdebug's and ours.

For a tensor in several collections the first counts: XGBoost's losses are metrics, too.
"""


COMPETING = "competing"
"""The kind of a loss whose optimizers take turns, as in a GAN: one may rise while another falls."""

TRAINED, HELD_OUT = "trained", "held out"
"""The kinds of a metric of boosted trees, by its data set: the one that they are trained on,
whatever its name is, and another one."""

SCORES = "scores"
"""The kind of predictions in another unit than the labels: ranks, hazards, logarithms of odds."""

IGNORE_INDEX = "ignore_index="
"""Part of the kind of class labels whose loss ignores one that is not negative, which follows."""

WEIGHTED = "weighted"
"""Part of the kind of labels whose loss counts some classes or samples more than others; a space
separates the parts."""

ACTING = "acting"
"""The kind of a loss of a model that acts before it is updated, as a policy does, or a model that
learns from what it generated: its data follow from it, and the loss need not fall."""


Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A number of elements or units, as every JSON reader can hold it."""

_Size = Annotated[float, msgspec.Meta(ge=0)]  # of a norm or a variance
_Share = Annotated[
    str, msgspec.Meta(max_length=32, pattern=r"^(0|1|0?\.\d+|1\.0+|\d(\.\d+)?e-0*[1-9]\d*)\Z")
]
_Digest = Annotated[str, msgspec.Meta(max_length=64)]
# Base64 of whole uint32: three of them are 16 letters.
_Packed = Annotated[
    str,
    msgspec.Meta(
        max_length=1 << 20,
        pattern=r"^([A-Za-z0-9+/]{16})*([A-Za-z0-9+/]{6}==|[A-Za-z0-9+/]{11}=)?\Z",
    ),
]


class Bounds(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts of elements outside an open interval.

    ``below`` counts those up to ``low``, ``above`` those from ``high`` on. None is no bound.
    """

    low: float | None = None
    high: float | None = None
    below: Count = 0
    above: Count = 0


class Channels(msgspec.Struct, frozen=True):
    """Mean and population variance of each channel along ``axis``; None without finite elements."""

    axis: int
    mean: Annotated[tuple[float | None, ...], msgspec.Meta(max_length=4096)]
    variance: Annotated[tuple[_Size | None, ...], msgspec.Meta(max_length=4096)]


class TensorSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tensor reduced to a few numbers, over its finite elements.

    ``None`` means unknown: not captured, or not a finite number. ``variance`` is the population
    variance; ``l1`` and ``l2`` are vector norms of the flattened tensor. The fields from
    ``quantiles`` to ``channels`` are set if a rule asked for that ``Detail``. ``max_step`` is the
    step of the maximum, in the summary of a save interval. The bounds of the fields hold for
    what is decoded: rules and reports need no other check.
    """

    size: Count | None = None
    nan: Count | None = None
    posinf: Count | None = None
    neginf: Count | None = None
    zeros: Count | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    abs_mean: _Size | None = None
    variance: _Size | None = None
    l1: _Size | None = None
    l2: _Size | None = None
    update_l1: _Size | None = None
    update_l2: _Size | None = None
    fingerprint: _Digest | None = None
    quantiles: Annotated[Mapping[_Share, float], msgspec.Meta(max_length=1024)] | None = None
    bounds: Bounds | None = None
    units: Count | None = None
    inactive_units: Count | None = None
    unit_active: _Packed | None = None
    channels: Channels | None = None
    max_step: Count | None = None


class Shard(msgspec.Struct, frozen=True):
    """The place of a worker's part in a tensor that several workers hold together.

    ``shape`` is that of the whole tensor. Workers with the same ``number`` hold the same part.
    """

    shape: Annotated[tuple[Count, ...], msgspec.Meta(max_length=32)]
    number: Count


@dataclass(frozen=True)
class Detail:
    """Additions to a summary that a rule asks for.

    quantiles: of the finite elements, each from 0 to 1; the key is ``str`` of it.
    active: an open interval (None: no bound). Sets ``bounds``, the number of ``units`` along
        ``unit_axis``, of those without an element inside (``inactive_units``), and the number of
        elements inside for each unit (``unit_active``: base64 of little-endian uint32).
    unit_axis: the axis of units or channels; None: the second of images (four dimensions or
        more), else the last.
    channel_axis: sets ``channels``.
    """

    quantiles: tuple[float, ...] = ()
    active: tuple[float | None, float | None] | None = None
    unit_axis: int | None = None
    channel_axis: int | None = None


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


RUN_TAG = "tocsin:run"
"""The tag of a SageMaker job that names its run, where its configuration does not."""

TrainingJobStatus = Literal["Completed", "Failed", "Stopped"]
"""The status of a SageMaker training job that has ended."""

TERMINAL_JOB_STATUSES: tuple[TrainingJobStatus, ...] = get_args(TrainingJobStatus)


class RuleStatus(StrEnum):
    IN_PROGRESS = "InProgress"
    NO_ISSUES_FOUND = "NoIssuesFound"
    ISSUES_FOUND = "IssuesFound"
    NOT_APPLICABLE = "NotApplicable"
    ERROR = "Error"
    STOPPED = "Stopped"


class Outcome(StrEnum):
    """The outcome of a rule at one step. UNDECIDED: it needs more steps, or it is too early."""

    HEALTHY = "healthy"
    VIOLATION = "violation"
    UNDECIDED = "undecided"
    NOT_APPLICABLE = "not_applicable"


class Reason(StrEnum):
    """The reason of a verdict."""

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
    BROKEN = "broken"
    CUSTOM_RULE = "custom_rule"


class Withdrawal(StrEnum):
    """The reason why an alert no longer stands though no rule was judged healthy.

    It is the ``Reason`` of the status change.
    """

    RESTARTED = "restarted"
    EDITED = "edited"
    REMOVED = "removed"


Evidence = Mapping[str, float | int | str]

Side = Literal["above", "below"]


class Measure(msgspec.Struct, frozen=True):
    """The number that a rule judged at a step, in the rule's own unit, and its limit.

    side: a value on this side of the limit violates the rule.
    """

    value: float
    limit: float
    side: Side = "above"

    @property
    def excess(self) -> float:
        """By how much of the limit the value is on the wrong side; negative on the right one."""
        beyond = self.value - self.limit if self.side == "above" else self.limit - self.value
        return -math.inf if math.isnan(beyond) else beyond / (abs(self.limit) or 1.0)


@dataclass(frozen=True)
class Verdict:
    """The finding of a rule at one step, with the numbers that decided.

    severity: of a violation, where it differs from the rule's own.
    measure: of a step that was judged, healthy or not, by a rule that has a limit; also of one that
        is undecided if it counts towards the limit.
    """

    outcome: Outcome
    reason: Reason
    detail: str = ""
    tensor: str | None = None
    worker: str | None = None
    evidence: Evidence = field(default_factory=dict)
    severity: Severity | None = None
    measure: Measure | None = None

    @property
    def violation(self) -> bool:
        return self.outcome is Outcome.VIOLATION


def altered(instance: T, **changes: Any) -> T:
    """Return a copy of a plain dataclass with other values: ``replace``, at a tenth of its time."""
    copy = object.__new__(type(instance))
    copy.__dict__.update(instance.__dict__, **changes)
    return copy


def json_number(value: float | int | str) -> float | int | str:
    """``value`` as JSON can carry it: NaN and infinities become strings."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
