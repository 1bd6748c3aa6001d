"""Captures the training of a PyTorch model: two lines in any script."""

from __future__ import annotations

from tocsin_hooks.stop import TrainingStopped
from tocsin_hooks.torch.custom.check import BadCheck, check
from tocsin_hooks.torch.events import (
    Finding,
    LossComputed,
    StepEnds,
    UpdateBegins,
    UpdateEnds,
)
from tocsin_hooks.torch.hook import TorchHook
from tocsin_hooks.torch.names import tensor_names

__all__ = [
    "BadCheck",
    "Finding",
    "LossComputed",
    "StepEnds",
    "TorchHook",
    "TrainingStopped",
    "UpdateBegins",
    "UpdateEnds",
    "check",
    "tensor_names",
]
