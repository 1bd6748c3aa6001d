"""Captures the training of a PyTorch model: two lines in any script."""

from __future__ import annotations

from tocsin_hooks.torch._hook import TorchHook
from tocsin_hooks.torch._names import tensor_names
from tocsin_hooks.torch._training import TrainingStopped

__all__ = ["TorchHook", "TrainingStopped", "tensor_names"]
