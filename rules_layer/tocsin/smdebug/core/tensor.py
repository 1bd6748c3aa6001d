"""Tensors of a trial."""

from __future__ import annotations

from tocsin.trial import StepState
from tocsin.trial import TrialTensor as Tensor

__all__ = ["StepState", "Tensor"]
