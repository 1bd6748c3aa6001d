"""Captures the training of a PyTorch model: two lines in any script."""

from __future__ import annotations

from tocsin_hooks.torch.callbacks import TrainingStopped
from tocsin_hooks.torch.hook import TorchHook
from tocsin_hooks.torch.names import tensor_names

__all__ = ["TorchHook", "TrainingStopped", "tensor_names"]
