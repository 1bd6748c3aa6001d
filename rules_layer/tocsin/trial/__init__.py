"""The reading API: a run as people ask it in a notebook, under the names known from smdebug."""

from __future__ import annotations

from tocsin.model import Mode
from tocsin.model import Mode as modes  # noqa: N813 - the name that smdebug's users know
from tocsin.tensors import BadCollections, BadPattern, Collection, Unreadable
from tocsin.trial.create import create_trial, not_a_run, snapshot
from tocsin.trial.exceptions import (
    InvalidWorker,
    MissingCollectionFiles,
    NoMoreData,
    NotARun,
    RuleEvaluationConditionMet,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
    TrialError,
)
from tocsin.trial.feed import Clock
from tocsin.trial.past import PastTrial, glance
from tocsin.trial.refreshing import no_refresh, refresh
from tocsin.trial.state import StepState
from tocsin.trial.tensor import TrialTensor
from tocsin.trial.trial import Trial

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
    "RuleEvaluationConditionMet",
    "ShapeUnavailableForStep",
    "StepNotYetAvailable",
    "StepState",
    "StepUnavailable",
    "TensorUnavailable",
    "TensorUnavailableForStep",
    "Trial",
    "TrialError",
    "TrialTensor",
    "Unreadable",
    "create_trial",
    "glance",
    "modes",
    "no_refresh",
    "not_a_run",
    "refresh",
    "snapshot",
]
