"""Captures the training of a PyTorch model: two lines in any script."""

from __future__ import annotations

from tocsin_hooks.torch._callbacks import TrainingStopped
from tocsin_hooks.torch._hook import TorchHook
from tocsin_hooks.torch._names import tensor_names

__all__ = ["TorchHook", "TrainingStopped", "tensor_names"]
