"""The errors that trials and rules raise.

Hooks and configurations raise Python's own exceptions, which have smdebug's names here, too.
"""

from __future__ import annotations

from tocsin.tensors import Unreadable as IndexReaderException
from tocsin.trial.exceptions import (
    InvalidWorker,
    MissingCollectionFiles,
    NoMoreData,
    RuleEvaluationConditionMet,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from tocsin.trial.exceptions import TrialError as SMDebugError

__all__ = [
    "IndexReaderException",
    "InsufficientInformationForRuleInvocation",
    "InvalidCollectionConfiguration",
    "InvalidWorker",
    "MissingCollectionFiles",
    "NoMoreData",
    "NoMoreProfilerData",
    "RuleEvaluationConditionMet",
    "SMDebugCustomerError",
    "SMDebugError",
    "SMDebugNotImplementedError",
    "SMDebugRuntimeError",
    "SMDebugTypeError",
    "SMDebugValueError",
    "ShapeUnavailableForStep",
    "StepNotYetAvailable",
    "StepUnavailable",
    "TensorUnavailable",
    "TensorUnavailableForStep",
]

SMDebugTypeError = TypeError
SMDebugValueError = ValueError
SMDebugRuntimeError = RuntimeError
SMDebugNotImplementedError = NotImplementedError

InvalidCollectionConfiguration = ValueError
SMDebugCustomerError = SMDebugError


class NoMoreProfilerData(SMDebugError):
    """Raised by rules of a script's own: Tocsin's profiler data has no end to wait for."""

    def __init__(self, timestamp: float) -> None:
        super().__init__(f"no profiler data at or after timestamp {timestamp}")
        self.timestamp = timestamp


class InsufficientInformationForRuleInvocation(SMDebugError):
    """Raised by rules of a script's own."""

    def __init__(self, rule_name: str, message: str) -> None:
        super().__init__(f"rule {rule_name} cannot be invoked: {message}")
        self.rule_name = rule_name
        self.message = message
