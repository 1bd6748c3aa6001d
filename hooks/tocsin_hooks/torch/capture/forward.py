"""Forward passes of saved steps: the inputs and outputs of a model, and its losses."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from tocsin_hooks.torch.capture.activations import Activations
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.losses import Losses
from tocsin_hooks.torch.capture.step_loss import StepLoss
from tocsin_hooks.torch.names import class_name, input_name, kind_of, output_name, submodules
from tocsin_hooks.torch.values import tensors_in

_log = logging.getLogger("tocsin")
_MOST_INPUTS = 8
_MOST_OUTPUTS = 4


class ForwardCapture:
    """Captures inputs, activations and outputs of the first pass of a step, and losses of all.

    ``losses`` are modules that count as losses whatever their class is.
    """

    def __init__(self, step: CurrentStep, losses: Iterable[Any]) -> None:
        self.loss = StepLoss(step)
        self._step = step
        self._activations = Activations(step)
        self._losses = Losses(step, losses)
        self._said_of_compiled = False

    def begin_pass(self) -> None:
        """Handle the start of a forward pass, of a saved or unsaved step."""
        self._losses.begin_pass()

    def begins(self, root: Any, args: Any, kwargs: Any, *, compiled: bool) -> None:
        """Handle the start of a forward pass of a saved step."""
        first = self._step.passes == 1
        if first:
            own = class_name(root)
            inputs = tensors_in((args, kwargs), _MOST_INPUTS)
            self._step.add_named([(input_name(own, label), each) for label, each in inputs])
            if compiled:
                self._say_of_compiled(root)
            else:
                self._activations.open(root)
        if not compiled and (first or self._losses.are_inside):
            self._losses.open_inside(root)

    def ends(self, root: Any, output: Any, *, compiled: bool) -> None:
        """Record the end of the pass and its output. Losses may follow."""
        losses = self.loss.forward_ended(root, output)
        if self._step.passes == 1:
            own = class_name(root)
            for label, each in tensors_in(output, _MOST_OUTPUTS):
                if not any(each is loss for loss in losses):
                    self._step.add_output(output_name(own, label), each)
        self._losses.open_outside(globally=not compiled or root.training)
        if compiled:
            self._close_at_backward(output)

    def without_forward(self, root: Any, *, globally: bool) -> None:
        """Begin a saved step without visible forward passes."""
        self._losses.open_outside(globally=globally)
        if root is not None:
            self.loss.without_forward(root)

    def close(self) -> None:
        """Stop capturing activations and losses."""
        self._activations.close()
        self._losses.close()

    def _close_at_backward(self, output: Any) -> None:
        """Stop capturing losses: a compiled model warns of global hooks when it is called."""

        def close(_: Any) -> None:
            self._losses.close()

        for _, each in tensors_in(output, _MOST_OUTPUTS):
            if each.requires_grad:
                each.register_hook(close)

    def _say_of_compiled(self, root: Any) -> None:
        if self._said_of_compiled:
            return
        self._said_of_compiled = True
        if any(
            kind and self._activations.wants(path, "output", kind)
            for path, module in submodules(root)
            for kind in [kind_of(module)]
        ):
            _log.warning("no activations are captured: they are not visible in a compiled model")
