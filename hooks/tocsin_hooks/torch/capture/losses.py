"""Losses that modules compute, inside of a model or after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import Any
from weakref import WeakSet

import torch
from tocsin.model import Mode
from torch.nn.modules.module import register_module_forward_hook

from tocsin_hooks.guard import guarded
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.origin import Origin, mark
from tocsin_hooks.torch.names import is_loss, loss_name, operand_names
from tocsin_hooks.torch.root import ModuleHook
from tocsin_hooks.torch.values import scalar_loss, tensors_in

_MOST_TENSORS = 16  # of one loss module
_MOST_CALLS = 16  # of one class, after one forward pass: other models' losses may come, too

_trouble = attrgetter("_step.hook.trouble")


def _of_module(losses: Losses, module: Any, *_: object) -> str:
    return f"loss {type(module).__name__} is not captured"


class Losses:
    """Captures outputs and inputs of loss modules, from one forward pass of a saved step to the
    next. In training, only losses with gradients count, not those computed for information or for
    another model. After a pass without gradients, those without gradients count, too: the script
    trains another model, as a critic after its generator has drawn samples.

    ``named`` are modules that count as losses whatever their class is. Of a loss that is computed
    by others only the outermost counts.
    """

    def __init__(self, step: CurrentStep, named: Iterable[Any]) -> None:
        self._step = step
        self._named = WeakSet(named)
        self._handles: list[Any] = []
        self._calls = Counter[str]()
        self._recorded: list[tuple[int, str]] = []
        self._reductions: dict[str, Any] = {}  # of classes, in training
        self._with_gradients = True  # computed in the forward pass
        self.are_inside = False
        """True if there were any inside of the model when it was last looked at."""

    def begin_pass(self) -> None:
        """Another forward pass: calls are counted from 0 again."""
        self.close()
        self._calls.clear()
        self._recorded.clear()
        self._with_gradients = torch.is_grad_enabled()

    def open_inside(self, root: Any) -> None:
        """Capture losses inside the model during its forward pass."""
        inside = [each for each in root.modules() if each is not root and self._is_loss(each)]
        self.are_inside = bool(inside)
        self._watch(inside)

    def open_outside(self, *, globally: bool) -> None:
        """For all others, once it has ended. Not ``globally``: only for those that are named."""
        self.close()
        if globally:
            # Not with_kwargs: removing the handle would leave a trace of that (PyTorch 2.13).
            self._handles.append(register_module_forward_hook(self._seen_anywhere))
        else:
            self._watch(self._named)

    def close(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _is_loss(self, module: Any) -> bool:
        return is_loss(module) or module in self._named

    def _watch(self, modules: Iterable[Any]) -> None:
        seen = ModuleHook(self._seen, None, before=False)
        self._handles += [each.register_forward_hook(seen, with_kwargs=True) for each in modules]

    @guarded(_trouble, _of_module)
    def _seen_anywhere(self, module: Any, args: Any, output: Any) -> None:
        self._seen(module, args, {}, output)

    @guarded(_trouble, _of_module)
    def _seen(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or not self._is_loss(module):
            return
        with self._step.hook.measured():
            self._forget_inner(module)
            self._record(module, args, kwargs, output)

    def _forget_inner(self, module: Any) -> None:
        inner = {id(each) for each in module.modules() if each is not module}
        for own, name in self._recorded:
            if own in inner:
                self._step.forget_loss(name)
        self._recorded = [each for each in self._recorded if each[0] not in inner]

    def _record(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        own = type(module).__name__
        call = self._calls[own]
        self._calls[own] += 1
        reduction = getattr(module, "reduction", None)
        if self._step.mode is Mode.TRAIN:
            self._reductions[own] = reduction
        elif own in self._reductions and not reduction == self._reductions[own] != "sum":
            return  # not comparable, for another number of samples: its function is known
        found, only = False, scalar_loss(output)  # beside it others may tell more
        for label, value in tensors_in(output, _MOST_TENSORS):
            if only is not None and value is not only:
                continue
            if value.is_floating_point() and self._counts(value):
                name = loss_name(module, label, call)
                self._step.add_loss(name, value)
                self._recorded.append((id(module), name.name))
                mark(value, Origin("module", name.name))
                found = True
        if found and self._step.passes == 1:
            self._show_operands(module, [*args, *kwargs.values()], call)

    def _counts(self, loss: Any) -> bool:
        if self._step.mode is Mode.TRAIN:
            return bool(loss.requires_grad)
        return self._with_gradients or not loss.requires_grad

    def _show_operands(self, module: Any, values: list[Any], call: int) -> None:
        predictions, labels = operand_names(module, call)
        if predictions and values and isinstance(values[0], torch.Tensor):
            self._step.add_prediction(predictions, values[0])
        if labels and len(values) > 1 and isinstance(values[1], torch.Tensor):
            self._step.add_named([(labels, values[1])])
