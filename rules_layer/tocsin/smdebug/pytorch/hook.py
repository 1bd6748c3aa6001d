"""The hook for PyTorch, under smdebug's names."""

from __future__ import annotations

import logging
from typing import Any

import torch
from tocsin_hooks.torch import TorchHook

from tocsin.smdebug.core.hook import BaseHook
from tocsin.smdebug.core.singleton_utils import set_hook

__all__ = ["Hook"]

_log = logging.getLogger("tocsin")


class Hook(BaseHook):
    """Captures the training of a PyTorch model, in the names and steps of smdebug.

    A forward pass of the registered module is a step. See ``BaseHook`` for the arguments and
    ``tocsin_hooks.torch.TorchHook`` for what is captured.

    Example
    -------
    >>> hook = Hook.create_from_json_file()
    >>> hook.register_module(model)
    >>> hook.register_loss(criterion)
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._model: torch.nn.Module | None = None
        self._losses: list[Any] = []
        self._torch: TorchHook | None = None
        self._waiting: Any = None  # for the model's first forward pass
        set_hook(self)

    def register_module(self, module: torch.nn.Module) -> None:
        """Capture a model from its next forward pass on. Raises TypeError."""
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"{type(module).__name__} is not a torch.nn.Module")
        if self._model is not None:
            _log.warning("a hook captures one model: %s in place of the earlier one", type(module))
            self._waiting.remove()
        self._model = module
        self._waiting = module.register_forward_pre_hook(self._attach, with_kwargs=True)

    register_hook = register_module

    def register_loss(self, loss_module: Any) -> None:
        """Capture what a loss, a module, gets and returns. Raises TypeError."""
        if not isinstance(loss_module, torch.nn.Module):
            raise TypeError(f"{type(loss_module).__name__} is not a torch.nn.Module")
        self._losses.append(loss_module)

    def record_tensor_value(self, tensor_name: str, tensor_value: torch.Tensor) -> None:
        """Save a loss that a function computed, as ``NAME_output_0``."""
        name = f"{tensor_name}_output_0"
        if self._torch is not None:
            self._torch.record_loss(tensor_value, name)

    def close(self) -> None:
        """Write what is waiting, and the end of the run."""
        if self._waiting is not None:
            self._waiting.remove()
        if self._torch is not None:
            self._torch.detach()
        super().close()

    def _attach(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """The first forward pass begins: the configuration is complete."""
        self._waiting.remove()
        self._torch = TorchHook.attach(module, self.hook, loss=self._losses, accumulate=1)
        training = self._torch.training
        if training is not None:
            training.evaluations.each_pass = True
            training.forward_begins(module, args, kwargs)
            # Called after the hooks of TorchHook, which have begun the step.
            self._waiting = module.register_forward_pre_hook(self._evaluates, with_kwargs=True)
            self._evaluates(module, args, kwargs)

    def _evaluates(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """A forward pass has begun: one that trains has its weights captured at the update."""
        trains = module.training and torch.is_grad_enabled()
        if not trains and self._torch is not None and self._torch.training is not None:
            self._torch.training.capture_parameters()

    def _name_of_part(self, part: Any) -> str:
        if part is self._model or self._model is None:
            return type(part).__name__
        return str(next(name for name, each in self._model.named_modules() if each is part))
