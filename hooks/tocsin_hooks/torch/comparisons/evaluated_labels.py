"""Labels that an evaluation takes out of PyTorch, for a metric that another library computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.calls.tape import Tape
from tocsin_hooks.torch.comparisons.known_losses import KnownLosses
from tocsin_hooks.torch.comparisons.metric_labels import SAMES

_MOST_ELEMENTS = 1 << 20  # of outputs that are kept until the evaluation has ended


@dataclass
class _Pass:
    output: Any
    labels: Any = None
    predicts: bool = False


@dataclass(frozen=True)
class EvaluatedPass:
    """A pass of an evaluation whose labels are known; ``number`` counts from 1."""

    number: int
    samples: int
    call: LossCall


class EvaluatedLabels:
    """Pairs what leaves PyTorch beside predictions with the outputs of the same pass.

    So it does with what is asked for several classes where it is each, as predictions are, and with
    what those of all passes are compared with.

    These are the labels only where each pass of an evaluation has one such tensor of their form, or
    one is left for all passes together. A script that takes them out before the pass that they
    belong to has none after the last one.
    """

    def __init__(self, known: KnownLosses, tape: Tape) -> None:
        self._known = known
        self._tape = tape
        self._passes: list[_Pass] = []
        self._together: Any = None  # labels of all passes
        self._elements = 0
        self._is_unclear = False
        self._asked: dict[Any, int] = {}  # the first class, of tensors of the current pass

    def begin(self) -> None:
        """Begin another evaluation."""
        self._passes, self._together, self._elements, self._is_unclear = [], None, 0, False

    def forward_ended(self, outputs: Sequence[Any]) -> None:
        """Record the outputs of a pass of the evaluation."""
        self._asked.clear()
        output = self._known.judged_output([each for each in outputs if each.dim()])
        self._is_unclear |= output is None
        if self._is_unclear:
            self._passes.clear()
            return
        self._elements += output.numel()
        self._is_unclear = self._elements > _MOST_ELEMENTS
        self._passes.append(_Pass(output.detach()))

    def dismiss(self) -> None:
        """Discard the labels: the losses of this evaluation are known in another way."""
        self._is_unclear = True

    def compared(self, call: RecordedCall) -> None:
        """Something is compared with a prediction, perhaps that of all passes."""
        if call.name not in SAMES or len(call.args) != 2:
            return
        tensors = [each for each in call.args if isinstance(each, torch.Tensor)]
        for each in tensors if len(tensors) == 2 else ():
            self.left(each)

    def left(self, tensor: Any, asked: int | None = None) -> None:
        """A tensor becomes an array or a list, or is ``asked`` where it is that class."""
        if self._is_unclear or not self._passes:
            return
        if asked is not None and self._asked.setdefault(self._key(tensor), asked) == asked:
            return  # the places of one class: of what is padded, perhaps
        here = self._passes[-1]
        recipes = self._tape.recipes
        if recipes.of(tensor) is not None:
            here.predicts = True
            self._is_unclear = not (self._known.has_classes or recipes.is_output(tensor))
        elif self._known.are_labels(tensor, here.output):
            self._is_unclear = here.labels is not None and not _is_same(here.labels, tensor)
            here.labels = tensor
        elif self._known.are_labels(tensor, *(each.output for each in self._passes)):
            self._is_unclear = self._together is not None and not _is_same(self._together, tensor)
            self._together = tensor

    def _key(self, tensor: Any) -> Any:
        made = self._tape.recipes.of(tensor)
        return ("memory", tensor.data_ptr()) if made is None else made

    def ended(self) -> list[EvaluatedPass]:
        """End the evaluation. Return its passes with their losses, by the loss of training."""
        passes, together = self._passes, self._together
        unclear = self._is_unclear or not any(each.predicts for each in passes)
        self.begin()
        if unclear:
            return []
        if together is not None and not any(each.labels is not None for each in passes):
            whole = self._known.loss_of(torch.cat([each.output for each in passes]), together)
            return [] if whole is None else [EvaluatedPass(len(passes), len(together), whole)]
        labels = [each.labels for each in passes]
        if len(passes) > 1 and labels[-1] is None:  # those of the first came before it
            passes, labels = passes[1:], labels[:-1]
        if any(each is None for each in labels):
            return []
        calls = map(self._known.loss_of, (each.output for each in passes), labels)
        numbered = enumerate(zip(passes, calls, strict=True), 1)
        return [EvaluatedPass(n, len(each.output), call) for n, (each, call) in numbered if call]


def _is_same(one: Any, other: Any) -> bool:
    return bool(one.data_ptr() == other.data_ptr())
