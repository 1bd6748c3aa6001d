"""The contracts that a training has broken, each with the line of the script."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import torch
from tocsin.model import Mode

from tocsin_hooks.looks import Name, contract_name
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.calls.derivatives import Derivatives
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.contracts.batch_axis import BatchAxis
from tocsin_hooks.torch.contracts.losses import (
    SEVERAL_TIMES,
    are_constant,
    broken_by_loss,
    column_of_label,
    have_equal_tokens,
    is_copied,
    labels_equal_inputs,
)
from tocsin_hooks.torch.contracts.overlaps import has_overlap_of_scores, minimises_overlap
from tocsin_hooks.torch.contracts.padding import counts_padding
from tocsin_hooks.torch.contracts.pictures import are_empty_masks, are_scrambled
from tocsin_hooks.torch.contracts.reach import target_outside_range
from tocsin_hooks.torch.contracts.signs import ppo_clip_uses_max, rewards_derivatives
from tocsin_hooks.torch.contracts.softmaxes import has_cosines, has_softmax_twice
from tocsin_hooks.torch.contracts.token_probe import TokenProbe
from tocsin_hooks.torch.graph import is_summed, nodes_of

_LOOKS = 3  # at the values of one call, in steps that are saved
_MOST_CALLS = 32  # lines of a script that are looked at
_MOST_DIFFERENCES = 16  # of a loss
_MOST_NODES = 200  # of a loss
_COMPARED = 4096  # elements of a mask or of weights
_OF_SIGNS = frozenset({"ppo_clip_uses_max", "overlap_minimised", "gradient_penalty_subtracted"})
_SOON = 300  # training passes in which a model that is to find its input learns to copy it


class _Difference(NamedTuple):
    """One of predictions and labels; of each with each, without operands."""

    place: str
    node: Any
    operands: tuple[Any, Any] | None = None


class BrokenContracts:
    """Looks at the first values of each call of a loss and of the inputs, and saves what is broken
    once. Some contracts must be broken several times."""

    def __init__(self, step: CurrentStep) -> None:
        self._step = step
        self._looks = Counter[tuple[Mode, str]]()
        self._seen = Counter[tuple[str, str]]()
        self._now = Counter[tuple[Mode, str]]()  # calls of the current step
        self._counted: set[tuple[str, str]] = set()  # in the current step
        self._columns: dict[tuple[int, int], str] = {}  # of inputs, which are labels of the step
        self._found: dict[Name, bool] = {}  # and whether that is saved
        self._differences: list[_Difference] = []
        self._products: list[tuple[str, Any]] = []  # of each with each: their lines and nodes
        self._factors: dict[str, Any] = {}  # some of their elements, by the line
        self._tokens, self._axis = TokenProbe(step.hook), BatchAxis(step.hook)
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

    @property
    def has_more(self) -> bool:
        """Return whether something was found that is not saved yet."""
        return not all(self._found.values())

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
        learns = mode is not Mode.TRAIN or call.prediction.requires_grad
        copies = contract_name("labels_equal_inputs", call.place) in self._found
        if copies and learns and passes <= _SOON and is_copied(call):
            self._found.setdefault(contract_name("labels_copied", call.place), False)
        if not learns or not self._looks_at(mode, call.place):
            return
        with torch.no_grad():
            found = [*broken_by_loss(call)]
            if mode is Mode.TRAIN and have_equal_tokens(call, inputs):
                found.append("tokens_identical")
            if labels_equal_inputs(call, inputs):
                found.append("labels_equal_inputs")
            if counts_padding(call, inputs):
                found.append("padding_in_loss")
            if are_empty_masks(call, inputs):
                found.append("labels_identical")
            column = column_of_label(call, inputs)
        if column is not None:
            self._columns[column] = call.place
        for name in found:
            self._count(name, call.place)

    def _looks_at(self, mode: Mode, place: str) -> bool:
        """Return whether to look at a call there: at all of a step, for several may share a
        line."""
        key = mode, place
        if key not in self._now:
            if not self._looks[key] and len(self._looks) >= _MOST_CALLS:
                return False
            self._looks[key] += 1
        self._now[key] += 1
        return self._looks[key] <= _LOOKS and self._now[key] <= _MOST_CALLS

    def check_tokens(self, call: LossCall) -> None:
        """Ask autograd which tokens the predictions of a loss depend on."""
        for name in self._tokens.broken(call):
            self._count(name, call.place)

    def check_graph(self, loss: Any, outputs: list[Any]) -> None:
        """Look at what a loss is computed from, of which gradients are going to be computed:
        from these ``outputs`` of the model, as far as they are known."""
        place = script_line()
        self._looks[self._step.mode, f"graph of {place}"] += 1
        if self._looks[self._step.mode, f"graph of {place}"] > _LOOKS:
            return
        if not isinstance(loss, torch.Tensor):
            return
        if has_softmax_twice(loss):
            self._count("softmax_twice", place)
        if has_cosines(loss):
            self._count("cosines_as_logits", place)
        if minimises_overlap(loss):
            self._count("overlap_minimised", place)
        if has_overlap_of_scores(loss, outputs):
            self._count("overlap_of_logits", place)
        if ppo_clip_uses_max(loss):
            self._count("ppo_clip_uses_max", place)
        if rewards_derivatives(loss):
            self._count("gradient_penalty_subtracted", place)

    def meant_to_grow(self) -> None:
        """The optimizer makes the loss of this step larger, so signs are the other way round."""
        for name in [name for name, saved in self._found.items() if not saved]:
            if name.name.split("/")[1] in _OF_SIGNS:
                del self._found[name]

    def subtracted(self, one: Any, other: Any, result: Any) -> None:
        """Remember predictions that are subtracted from labels, or the reverse, until it is known
        whether the loss is of that."""
        place = script_line()
        self._looks[self._step.mode, f"difference of {place}"] += 1
        if self._looks[self._step.mode, f"difference of {place}"] <= _LOOKS:
            self._differences.append(_Difference(place, result.grad_fn, (one, other)))

    def broadcast(self, result: Any) -> None:
        """Remember a difference of each prediction and each label."""
        if len(self._differences) < _MOST_DIFFERENCES:
            self._differences.append(_Difference(script_line(), result.grad_fn))

    def begin_loss(self) -> None:
        """Begin a loss, perhaps of several forward passes, perhaps."""
        self._differences, self._products = [], []

    def multiplied(self, one: Any, other: Any, result: Any) -> None:
        """Remember a product of each computed value and each mask or weight, if that is another
        than in the last one: positions or frequencies stay as they are."""
        place = script_line()
        if self._looks_at(self._step.mode, f"product of {place}"):
            given = other if one.requires_grad else one
            some = given.detach().flatten()[:_COMPARED].clone()
            before = self._factors.get(place)
            if before is None or not torch.equal(some, before):
                self._products.append((place, result.grad_fn))
            self._factors[place] = some

    def check_products(self, loss: Any) -> None:
        """Judge those that a loss is computed from."""
        found, self._products = self._products, []
        if found and isinstance(loss, torch.Tensor):
            parts = {*nodes_of(loss.grad_fn, _MOST_NODES)}
            for place, node in found:
                if node in parts:
                    self._count("broadcast_product", place)

    def check_differences(self, loss: Any) -> None:
        """Judge those that are squared, or whose sizes are summed up, in a loss: not what becomes
        the density of an action, or the distances of all pairs."""
        found, self._differences = self._differences, []
        if not isinstance(loss, torch.Tensor):
            return
        for each in found:
            if not is_summed(loss, each.node, weighted=each.operands is None):
                continue
            if each.operands is None:
                self.here("broadcast_difference", each.place)
            elif target_outside_range(*each.operands):
                self._count("target_out_of_range", each.place)

    def derived(self, is_zero: bool) -> None:
        """The script has taken derivatives, which are 0 or not."""
        place = script_line()
        if self._looks_at(self._step.mode, f"derivative of {place}") and is_zero:
            self._count("derivative_always_zero", place)

    def check_derivatives(self, derivatives: Derivatives, loss: Any) -> None:
        """Judge those that become a part of a loss."""
        for place in derivatives.broken(loss):
            self._count("derivative_without_graph", place)
        derivatives.clear()

    def check_inputs(self, inputs: list[Any]) -> None:
        """Look at what a model is given in a saved step."""
        key = self._step.mode, "inputs"
        self._looks[key] += 1
        if self._looks[key] > _LOOKS:
            return
        if are_constant(inputs):
            self._count("constant_input", script_line())
        if are_scrambled(inputs):
            self._count("channels_not_permuted", script_line())

    def flush(self) -> None:
        """Add what is not saved yet to the current step."""
        if len(self._columns) == 1 and self._step.passes <= 1:  # several are to be found again
            self._count("label_among_inputs", *self._columns.values())
        self._columns.clear()
        self._now.clear()
        self._counted.clear()
        for name in [name for name, saved in self._found.items() if not saved]:
            plan = self._step.plan(name)
            if plan is not None:
                self._step.hook.capture(plan, 1.0)
                self._found[name] = True

    def _count(self, contract: str, place: str) -> None:
        if (contract, place) in self._counted:
            return
        self._counted.add((contract, place))
        self._seen[contract, place] += 1
        if contract not in SEVERAL_TIMES or self._seen[contract, place] == _LOOKS:
            self._found.setdefault(contract_name(contract, place), False)
