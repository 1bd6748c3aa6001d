"""Weights, biases, their gradients and learning rates, as an optimizer gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from tocsin.model import Role
from torch.nn.parameter import is_lazy

from tocsin_hooks.guard import Guard, Report
from tocsin_hooks.torch.autograd import after_backward
from tocsin_hooks.torch.capture.captured import CurrentStep, Pairs
from tocsin_hooks.torch.gradients import LeftGradient, parameters_of
from tocsin_hooks.torch.names import class_name, gradient_name, parameter_name

_MOST_RATES = 16
_NOT_CAPTURED = "gradients are not captured"


class Parameters:
    """Captures them when an optimizer is about to update the model: unscaled, accumulated,
    clipped, averaged over processes.

    A weight is captured once a step, by the first optimizer that updates it. One that no known
    optimizer holds, since it is frozen or forgotten, is captured with the first of all.
    """

    def __init__(self, step: CurrentStep) -> None:
        self._step = step
        self._optimizers = WeakKeyDictionary[Any, tuple[int, bool]]()
        self._seen = WeakSet[Any]()
        self._captured: set[int] = set()
        self._were_held = False
        self._reported_meta = False

    def hold(self, optimizer: Any, root: Any) -> bool:
        """Return whether an optimizer updates parameters of the model."""
        size = sum(len(group["params"]) for group in optimizer.param_groups)
        known = self._optimizers.get(optimizer)
        if known is None or known[0] != size or self._step.saving:  # layers may be replaced
            ours = {id(each) for each in root.parameters()}
            known = size, any(id(each) in ours for each in parameters_of(optimizer))
            self._optimizers[optimizer] = known
            self._were_held |= known[1]
        return known[1]

    def holds(self, optimizer: Any) -> bool:
        """Return whether the optimizer updates parameters of the model."""
        return self._optimizers.get(optimizer, (0, False))[1]

    @property
    def updated_by_nobody(self) -> bool:
        """Return whether no optimizer of the model has been known yet: a script may drop it."""
        return not self._were_held

    def begin(self) -> None:
        """Begin another step."""
        self._captured.clear()

    def capture(self, root: Any, optimizer: Any) -> None:
        held = {id(each) for each in parameters_of(optimizer)}
        others = {
            id(each)
            for other, (_, ours) in self._optimizers.items()
            if ours and other is not optimizer
            for each in parameters_of(other)
        }
        # At first another optimizer may just not have been seen yet.
        forgotten = optimizer in self._seen
        self._seen.add(optimizer)
        scale = getattr(optimizer, "grad_scale", None)  # a fused optimizer unscales by itself

        def gradient(parameter: Any) -> Any:
            if id(parameter) in held:
                return _unscaled(parameter.grad, scale)
            # One that was frozen may have a gradient from before that.
            alone = forgotten and parameter.requires_grad and id(parameter) not in others
            return parameter.grad if alone else None

        self._add(root, lambda each: id(each) in held or id(each) not in others, gradient)
        self._add_rates(optimizer)

    def capture_initial(self, root: Any) -> None:
        """Capture the weights after the first forward pass, which may initialise them: no update is
        seen of a loop that makes it by itself, and in a long episode it comes late. With several
        processes a weight may be whole during a pass and divided otherwise: then it waits.
        """
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            self._add(root, lambda _: True, lambda _: None)

    def capture_at_backward(self, root: Any) -> Any:
        """For a loop that updates by itself: weights and gradients at the end of the next
        backward pass. Returns the handle to end that.
        """
        return _WholeBackward(
            [each for each in root.parameters() if each.requires_grad and not is_lazy(each)],
            lambda found: self._add(root, lambda _: True, lambda each: found.get(id(each))),
            self._step.hook.trouble,
        )

    def _add(
        self, root: Any, weights: Callable[[Any], bool], gradient: Callable[[Any], Any]
    ) -> None:
        own = class_name(root)
        pairs: Pairs = []
        for path, parameter in root.named_parameters():
            if is_lazy(parameter) or self._is_meta(path, parameter):
                continue
            name = parameter_name(own, path)
            if id(parameter) not in self._captured and weights(parameter):
                self._captured.add(id(parameter))
                if plan := self._step.plan(name):
                    pairs.append((plan, parameter))
            if (plan := self._step.plan(gradient_name(name))) is not None:
                found = gradient(parameter)
                pairs += [(plan, found)] if found is not None else []
        self._step.add(pairs)

    def _is_meta(self, path: str, parameter: Any) -> bool:
        if parameter.is_meta and not self._reported_meta:
            self._reported_meta = True
            error = ValueError("it is on the device meta, which has no values")
            self._step.hook.trouble(f"parameter {path} is not captured", error)
        return bool(parameter.is_meta)

    def _add_rates(self, optimizer: Any) -> None:
        ours = [each for each, (_, own) in self._optimizers.items() if own]
        before = sum(len(each.param_groups) for each in ours[: ours.index(optimizer)])
        groups = optimizer.param_groups
        hook = self._step.hook
        for place, group in enumerate(groups[:_MOST_RATES], before):
            rate = group.get("lr")
            alone = place == 0 and len(groups) == 1
            name = "learning_rate" if alone else f"learning_rate_{place}"
            plan = hook.plan(name, "learning_rates", role=Role.LEARNING_RATE)
            if plan is not None and isinstance(rate, torch.Tensor):
                self._step.add([(plan, rate)])
            elif plan is not None and rate is not None:
                hook.capture(plan, float(rate))


class _WholeBackward:
    """Calls ``ended`` at the end of the next backward pass that computes gradients of parameters,
    also one by ``torch.autograd.grad``, with these by the parameters' identities.

    PyTorch's ``register_multi_grad_hook`` does the same, but raises in ``torch.autograd.grad``.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        ended: Callable[[dict[int, Any]], None],
        trouble: Report,
    ) -> None:
        self._found: dict[int, Any] = {}
        self._ended = ended
        self._trouble = trouble
        self._handles = [
            each.register_hook(partial(self._arrived, id(each))) for each in parameters
        ]

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()
        self._found.clear()

    def _arrived(self, parameter: int, gradient: Any) -> None:
        with Guard(self._trouble, _NOT_CAPTURED):
            if self._handles and not self._found:
                after_backward(self._at_end)
            self._found[parameter] = gradient

    def _at_end(self) -> None:
        with Guard(self._trouble, _NOT_CAPTURED):
            if self._handles:
                found = dict(self._found)
                self.remove()
                self._ended(found)


class LastGradient:
    """One of the gradients that a model was last updated with: as long as it is there as it was,
    no other ones were computed, and nobody has taken it away."""

    def __init__(self) -> None:
        self._left: LeftGradient | None = None

    def updated(self, optimizer: Any) -> None:
        """Note that the optimizer has just updated the model."""
        for each in parameters_of(optimizer):
            if each.grad is not None:
                self._left = LeftGradient(each)
                return

    @property
    def is_there(self) -> bool:
        return self._left is not None and self._left.stays


def has_gradients(root: Any) -> bool:
    # torch.func.functional_call puts what was computed in the place of parameters: those have no
    # gradient of their own, and PyTorch warns whoever asks for it.
    return any(each.is_leaf and each.grad is not None for each in root.parameters())


def without_gradients(root: Any) -> bool:
    """Return whether no parameter has a gradient: it was taken away, or is yet to be computed."""
    return not has_gradients(root)


def _unscaled(gradient: Any, scale: Any) -> Any:
    if gradient is None or not isinstance(scale, torch.Tensor):
        return gradient
    return gradient / scale.to(gradient.device)
