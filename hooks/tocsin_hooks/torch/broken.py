"""The contracts that a training has broken, each with the line of the script."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from tocsin.model import Mode

from tocsin_hooks.looks import Name, contract_name
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.batch_axis import BatchAxis
from tocsin_hooks.torch.captured import StepInHand
from tocsin_hooks.torch.contracts import (
    SEVERAL_TIMES,
    are_constant,
    broken_by_loss,
    is_copied,
    is_out_of_reach,
    label_is_an_input,
    labels_equal_inputs,
)
from tocsin_hooks.torch.loss_calls import LossCall
from tocsin_hooks.torch.softmaxes import has_softmax_twice
from tocsin_hooks.torch.token_probe import TokenProbe

_LOOKS = 3  # at the values of one call, in steps that are saved
_MOST_CALLS = 32  # lines of a script that are looked at
_SOON = 300  # training passes in which a model that is to find its input learns to copy it


class BrokenContracts:
    """Looks at the first values of each call of a loss and of the inputs, and saves what is broken
    once. Some contracts must be broken several times."""

    def __init__(self, step: StepInHand) -> None:
        self._step = step
        self._looks = Counter[tuple[Mode, str]]()
        self._seen = Counter[tuple[str, str]]()
        self._found: dict[Name, bool] = {}  # and whether that is saved
        self._tokens, self._axis = TokenProbe(), BatchAxis()
        self._probes = (self._tokens, self._axis)

    def forward_begins(self, root: Any) -> None:
        """Look into a forward pass of training that is saved."""
        for probe in self._probes:
            probe.forward_begins(root)

    def forward_ends(self) -> None:
        for probe in self._probes:
            probe.forward_ends()

    def forget(self) -> None:
        """Forget the last forward pass: nothing more of it is to come."""
        for probe in self._probes:
            probe.forget()

    def here(self, contract: str, place: str | None = None, /) -> None:
        """The line of the script that is being executed breaks a contract, or an earlier one."""
        self._found.setdefault(contract_name(contract, place or script_line()), False)

    def check_loss(self, call: LossCall, inputs: list[Any], passes: int) -> None:
        """Look at a loss that was computed in a saved step, after so many ``passes``."""
        mode = self._step.mode
        if mode is Mode.TRAIN:
            self.check_tokens(call)
            for name in self._axis.broken(call):
                self._count(name, call.place)
        looked = self._looks[mode, call.place]
        known = looked or len(self._looks) < _MOST_CALLS
        learns = mode is not Mode.TRAIN or call.prediction.requires_grad
        copies = contract_name("labels_equal_inputs", call.place) in self._found
        if copies and learns and passes <= _SOON and is_copied(call):
            self._found.setdefault(contract_name("labels_copied", call.place), False)
        if looked >= _LOOKS or not known or not learns:
            return
        self._looks[mode, call.place] += 1
        with torch.no_grad():
            found = [*broken_by_loss(call)]
            if labels_equal_inputs(call, inputs):
                found.append("labels_equal_inputs")
            if label_is_an_input(call, inputs):
                found.append("label_is_an_input")
        for name in found:
            self._count(name, call.place)

    def check_tokens(self, call: LossCall) -> None:
        """Ask autograd which tokens the predictions of a loss depend on."""
        for name in self._tokens.broken(call):
            self._count(name, call.place)

    def check_graph(self, loss: Any) -> None:
        """Look at what a loss is computed from, of which gradients are going to be computed."""
        place = script_line()
        self._looks[self._step.mode, f"graph of {place}"] += 1
        if self._looks[self._step.mode, f"graph of {place}"] > _LOOKS:
            return
        if isinstance(loss, torch.Tensor) and has_softmax_twice(loss):
            self._count("softmax_twice", place)

    def check_difference(self, one: Any, other: Any) -> None:
        """Look at predictions that are subtracted from labels in a saved step, or the reverse."""
        place = script_line()
        self._looks[self._step.mode, f"difference of {place}"] += 1
        if self._looks[self._step.mode, f"difference of {place}"] > _LOOKS:
            return
        if is_out_of_reach(one, other):
            self._count("target_out_of_range", place)

    def check_inputs(self, inputs: list[Any]) -> None:
        """Look at what a model is given in a saved step."""
        key = self._step.mode, "inputs"
        self._looks[key] += 1
        if self._looks[key] <= _LOOKS and are_constant(inputs):
            self._count("constant_input", script_line())

    def hand_over(self) -> None:
        """Add what is not saved yet to the step in hand."""
        for name in [name for name, saved in self._found.items() if not saved]:
            plan = self._step.plan(name)
            if plan is not None:
                self._step.hook.capture(plan, 1.0)
                self._found[name] = True

    def _count(self, contract: str, place: str) -> None:
        self._seen[contract, place] += 1
        if contract not in SEVERAL_TIMES or self._seen[contract, place] == _LOOKS:
            self._found.setdefault(contract_name(contract, place), False)
