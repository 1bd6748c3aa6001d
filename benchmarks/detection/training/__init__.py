"""Trainings of many kinds, sound and faulty, captured as users capture theirs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from benchmarks.detection.training.outcome import Outcome
from benchmarks.detection.training.setup import Setup

_OTHERS = {"gan": "families.gan", "xgboost": "families.boosting"}


def train(setup: Setup, folder: Path) -> Outcome:
    """Do one training, and write its run into ``folder``, which must be new."""
    module = import_module(f"{__name__}.{_OTHERS.get(setup.family, 'loop')}")
    outcome: Outcome = module.train(setup, folder)
    return outcome
