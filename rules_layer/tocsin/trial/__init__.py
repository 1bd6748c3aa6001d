"""The reading API: a run as people ask it in a notebook, under the names known from smdebug."""

from __future__ import annotations

from tocsin.model import Mode
from tocsin.model import Mode as modes  # noqa: N813 - the name that smdebug's users know
from tocsin.tensors import BadCollections, BadPattern, Collection, NotARun, Unreadable
from tocsin.trial._create import create_trial
from tocsin.trial._exceptions import (
    InvalidWorker,
    MissingCollectionFiles,
    NoMoreData,
    RuleEvaluationConditionMet,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
    TrialError,
)
from tocsin.trial._feed import Clock
from tocsin.trial._invoke import invoke_rule
from tocsin.trial._past import PastTrial, glance
from tocsin.trial._refresh import no_refresh, refresh
from tocsin.trial._required import RequiredTensors
from tocsin.trial._rule import Rule
from tocsin.trial._smdebug_names import smdebug_names
from tocsin.trial._state import StepState
from tocsin.trial._tensor import Tensor
from tocsin.trial._trial import Trial

__all__ = [
    "BadCollections",
    "BadPattern",
    "Clock",
    "Collection",
    "InvalidWorker",
    "MissingCollectionFiles",
    "Mode",
    "NoMoreData",
    "NotARun",
    "PastTrial",
    "RequiredTensors",
    "Rule",
    "RuleEvaluationConditionMet",
    "ShapeUnavailableForStep",
    "StepNotYetAvailable",
    "StepState",
    "StepUnavailable",
    "Tensor",
    "TensorUnavailable",
    "TensorUnavailableForStep",
    "Trial",
    "TrialError",
    "Unreadable",
    "create_trial",
    "glance",
    "invoke_rule",
    "modes",
    "no_refresh",
    "refresh",
    "smdebug_names",
]
