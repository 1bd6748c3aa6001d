"""The loss of a step: the tensor that ``backward`` is called on."""

from __future__ import annotations

from typing import Any

import torch
from tocsin.model import Mode, Role

from tocsin_hooks.looks import Name
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.capture.backward import Backward, BackwardWatcher, Site
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.origin import Origin, mark, origin, origin_of
from tocsin_hooks.torch.capture.trained_losses import TrainedLosses
from tocsin_hooks.torch.values import scalar_loss, tensors_in

LOSS = "loss"
_OBJECTIVE = Name("objective", ("objectives",), Role.OBJECTIVE, None)
_MOST_LOSSES = 16  # lines of a script that call ``backward``
_MOST_OUTPUTS = 8  # of a model, among which its loss is looked for


class StepLoss:
    """Captures the loss of a saved step, and chooses its name.

    A loss that a module computed has that module's name; a multiple of it that is differentiated is
    saved as the objective. One that the model returned, and one that functions computed, is
    ``loss``; where several lines call ``backward``, as a GAN's do, the next ones' are ``loss_1``,
    ``loss_2`` in the order in which they came first.

    The first backward pass shows where the loss stands in what it returns, or which function of
    PyTorch computed it. From then on that is found in evaluations, too.
    """

    def __init__(self, step: CurrentStep) -> None:
        self.adds_up = False
        """True if the loss of a step is the sum of those of its forward passes: a trainer has
        divided them. Else it is their mean."""
        self.divided_by = 1
        """The number by which a trainer divides each loss before its gradients are computed."""
        self._step = step
        self._watcher = BackwardWatcher(self._differentiated, step.hook.trouble)
        self._sites: dict[Site, str] = {}
        self._place: str | None = None
        self._returned: dict[str, Any] = {}
        self._passes: set[tuple[str, int]] = set()
        self._waiting = self._seen = False
        self._by_parameters = False
        self._functions = TrainedLosses()
        self._evaluated: tuple[Any, str] | None = None

    def begin(self) -> None:
        """Begin another step. Without a gradient of the last outputs, wait for parameters."""
        self._by_parameters |= self._waiting and not self._seen
        self._waiting = self._seen = False
        self.close()

    def close(self) -> None:
        """Stop waiting for backward passes."""
        self._watcher.close()
        self._returned = {}
        self._passes.clear()
        self._evaluated = None

    def forward_ended(self, model: Any, output: Any) -> list[Any]:
        """Return the losses in the ``output`` of a forward pass of a saved step."""
        found = dict(tensors_in(output, _MOST_OUTPUTS))
        numbers = {label: each for label, each in found.items() if _is_number(each)}
        loss = scalar_loss(output)
        if loss is None and self._place is not None:
            loss = numbers.get(self._place)
        if loss is not None:
            self._record_returned(loss)
        self._wait(model, output)
        if loss is not None or self._place is not None:
            return [loss]
        asked = {label: each for label, each in numbers.items() if each.requires_grad}
        for label, each in asked.items():
            if origin_of(each) is None:
                mark(each, Origin("returned", label))
        self._returned = {label: each.detach() for label, each in asked.items()}
        return [*asked.values()]

    def without_forward(self, model: Any) -> None:
        """Begin a saved step without visible forward passes."""
        self._watcher.watch_parameters(model)

    def called(self, call: LossCall) -> None:
        """Record a loss that a PyTorch function computed in a saved step."""
        if self._step.mode is Mode.TRAIN:
            self._functions.called(call)
        elif found := self._functions.evaluated(call):
            self._evaluate(*found, own=call.value)

    def evaluated(self, loss: Any, *, own: Any) -> None:
        """An evaluation has computed the loss of training by hand, by what is its ``own``."""
        if len(self._sites) == 1:
            (name,) = self._sites.values()
            self._evaluate(name, loss, own=own)

    def evaluated_by(self, call: LossCall) -> None:
        """Record the loss of an evaluation, computed with the loss function of training."""
        if call.module is None:
            self.called(call)
        else:
            self._evaluate(f"{call.module}_output_0", call.value, own=call.value)

    def recorded(self, loss: Any, name: str) -> None:
        """Use the name that the script has given to a loss."""
        value, ours = self._evaluated or (None, name)
        if value is loss and ours != name:
            self._step.forget_loss(ours)
        before = origin_of(loss)
        if before is not None and before.source == "backward" and before.name != name:
            self._step.forget_loss(before.name)
        mark(loss, Origin("recorded", name))

    def _evaluate(self, name: str, value: Any, *, own: Any) -> None:
        """Capture the loss of a pass of an evaluation, unless it has one of this name; ``own`` is
        what the script has of it."""
        if (name, self._step.passes) not in self._passes:
            self._passes.add((name, self._step.passes))
            self._step.add_loss(_name(name), value)
            self._evaluated = own, name

    def _wait(self, model: Any, output: Any) -> None:
        has_gradients = self._watcher.watch_output(model, output)
        self._waiting |= has_gradients and self._step.mode is Mode.TRAIN
        if torch.is_grad_enabled() and (self._by_parameters or not has_gradients):
            self._watcher.watch_parameters(model)

    def _record_returned(self, loss: Any) -> None:
        if origin_of(loss) is None:  # else a module in the model computed it
            self._step.add_loss(_name(LOSS), loss, sums=self.adds_up)
            mark(loss, Origin("returned", LOSS))

    def _differentiated(self, backward: Backward) -> None:
        with self._step.hook.measured():
            self._seen = True
            loss = backward.loss
            if not self._step.saving or loss is None or loss.numel() != 1:
                return
            known = origin(loss)
            if known is None or self.adds_up:
                self._record(backward)
            elif known.source == "returned" and known.name in self._returned:
                self._learn(known.name, backward)
            if known is not None and origin_of(loss) is None and not self.adds_up:
                self._record_multiple(backward)

    def _learn(self, place: str, backward: Backward) -> None:
        """The loss stands at that place of the output, unless the model gives it with a minus."""
        value = self._returned[place]
        if (value.sign() * backward.loss.detach().sign()).item() < 0:
            self._record(backward)
            return
        self._place = place
        self._step.add_loss(_name(LOSS), value)

    def _record(self, backward: Backward) -> None:
        name = self._named(backward.site())
        if name is None:
            return
        again = (name, self._step.passes) in self._passes  # gradients add up, and so do losses
        self._passes.add((name, self._step.passes))
        value = backward.value()
        if self.divided_by > 1:
            value = value * self.divided_by
        more = self.adds_up and self._step.passes > 1
        self._functions.differentiated(backward.loss, value, name, more=more)
        self._step.add_loss(_name(name), value, more=again, sums=self.adds_up)
        mark(backward.loss, Origin("backward", name))

    def _record_multiple(self, backward: Backward) -> None:
        """Record that what is saved as loss was multiplied by a number: gradients are those of the
        product."""
        again = (_OBJECTIVE.name, self._step.passes)
        self._step.add_loss(_OBJECTIVE, backward.value(), more=again in self._passes, sums=True)
        self._passes.add(again)

    def _named(self, site: Site) -> str | None:
        if site not in self._sites and len(self._sites) < _MOST_LOSSES:
            number = len(self._sites)
            self._sites[site] = f"{LOSS}_{number}" if number else LOSS
        return self._sites.get(site)


def _name(name: str) -> Name:
    return Name(name, ("losses",), Role.LOSS, None)


def _is_number(value: Any) -> bool:
    return bool(value.dim() == 0 and value.is_floating_point())
