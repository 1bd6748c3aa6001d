"""Recognises training losses in evaluations that call no loss function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from tocsin_hooks.torch.calls.indexed_outputs import Picked
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.calls.tape import Tape
from tocsin_hooks.torch.comparisons.called_loss import BY_NUMBERS, TWO_CLASSES, CalledLoss
from tocsin_hooks.torch.comparisons.metric_labels import (
    OF_MASKS,
    SAMES,
    SUM,
    Masks,
    counted,
    is_mask,
    once,
)

_DIFFERENCES = frozenset({"sub", "subtract", "__sub__", "__rsub__"})
_SIZES = frozenset({"abs", "absolute", "square", "pow", "mul", "norm", "linalg_norm"}) | {
    "__abs__",
    "__mul__",
    "__pow__",
    "linalg_vector_norm",
}
_JUDGES = SAMES | _DIFFERENCES | OF_MASKS
_MOST_RECIPES = 64
_FAR = 2.0  # deviations, between means of labels in one unit
_WIDER = 4.0  # times the deviation


@dataclass(frozen=True)
class _Computed:
    """A number that a loss by hand is a ``multiple`` of; ``samples``: of a sum, those of a pass in
    training; ``of_functions``: what PyTorch's loss functions gave is in it, and compared there."""

    place: str
    multiple: Any
    samples: float
    of_functions: bool


class KnownLosses:
    """The losses of training that are compared with shuffled labels.

    A loss that a script computes itself is known by the calls that lead to it. Where a script
    compares an output with classes or with numbers in another way, as an accuracy or a mean error
    does, the loss is computed as in training.
    """

    def __init__(self) -> None:
        self._computed: dict[int, _Computed] = {}
        self._called: dict[int, CalledLoss] = {}  # by the place of the output
        self._trained: dict[int, Any] = {}  # what is picked there in training, by its index
        self._differences: dict[int, LossCall] = {}
        self._masks = Masks()
        self.has_sums = False
        """True if a loss of training is a sum of results of PyTorch's functions, and more."""
        self.repeats = False
        """True if each pass of training selects by one and the same index, as that of the nodes
        of a graph that have labels: soon they are known by heart, and others are classified as
        ever."""
        self._evaluates = False  # by the functions of training
        self._labels = _LabelMoments()

    def begin_pass(self) -> None:
        self._differences.clear()
        self._masks.begin_pass()

    def computed(self, place: str, tape: Tape, loss: Any, *, of_functions: bool = False) -> None:
        """``loss`` was computed by hand in training, perhaps ``of_functions``; ``place``: where
        gradients were."""
        self.has_sums |= of_functions
        for recipe, multiple, adds in tape.parts_of(loss):
            if recipe in self._computed or len(self._computed) == _MOST_RECIPES:
                return
            if adds is None:
                continue
            samples = len(tape.outputs[0]) * tape.recipes.times(loss) if adds else 0.0
            self._computed[recipe] = _Computed(place, multiple, samples, of_functions)

    def called(self, call: LossCall, tape: Tape) -> None:
        """Record a call of a loss function in training, after outputs of the model."""
        judged = call.has_classes or call.name in BY_NUMBERS or call.name.startswith(TWO_CLASSES)
        if not judged or call.prediction.dim() <= call.has_classes:
            return
        others = {n: v for n, v in call.arguments.items() if n not in ("input", "target")}
        of_classes = {"pos_weight", "weight"} if call.has_classes else {"pos_weight"}
        if any(isinstance(v, torch.Tensor) for n, v in others.items() if n not in of_classes):
            return  # of samples, which evaluations do not have
        picked = _picked(tape, call.prediction)
        for place, output in enumerate(tape.outputs):
            of = call.prediction if picked is None else picked.of
            if not _is_same(output, of):
                continue
            if picked is not None:
                self.repeats = picked.is_same(self._trained.get(place))
                self._trained[place] = picked.index
            known = self._called.get(place)
            if known is None or (picked is None and known.picked is not None):
                form, label = tuple(call.prediction.shape[1:]), tuple(call.target.shape[1:])
                kind = None if picked is None else picked.kind
                made = CalledLoss(call.function, others, form, label, call.place, call.module, kind)
                self._called[place] = made
            if self._called[place].has_numbers:
                self._labels.add(call.target)

    def forget(self, call: LossCall) -> None:
        """Discard the calls there: they are not a training loss."""
        made = (call.function, call.place)
        for place in [p for p, e in self._called.items() if (e.function, e.place) == made]:
            del self._called[place]

    def evaluated(self, call: LossCall, outputs: Sequence[Any]) -> LossCall | None:
        """Return the loss of training, where an evaluation calls another function."""
        known = {made.function for made in self._called.values()}
        self._evaluates |= not known or call.function in known
        if self._evaluates:
            return None
        for place, made in self._called.items():
            whole = made.picked is None and place < len(outputs)
            if whole and _is_same(outputs[place], call.prediction):
                return made.loss(outputs[place], call.target)
        return None

    @property
    def has_classes(self) -> bool:
        """Return whether labels are class indices, which have no scale."""
        return not any(each.has_numbers for each in self._called.values())

    def judged_output(self, outputs: Sequence[Any]) -> Any:
        """Return the output of which training computes its loss, if that is the only one and
        evaluations do not compute it themselves."""
        if self._evaluates or len(self._called) != 1:
            return None
        ((place, made),) = self._called.items()
        return outputs[place] if place < len(outputs) and made.picked is None else None

    def are_labels(self, tensor: Any, *outputs: Any) -> bool:
        """Return whether a tensor may be the labels of these outputs together: its form, and its
        numbers beside those of training."""
        (made,) = self._called.values()
        samples = sum(each.numel() // prod(made.prediction) for each in outputs)
        if not samples or tensor.numel() != samples * prod(made.label):
            return False
        if made.has_numbers:
            return tensor.is_floating_point() and self._labels.are_like(tensor)
        return made.target(outputs[0], tensor) is not None

    def loss_of(self, output: Any, labels: Any) -> LossCall | None:
        """Return the loss of training, of an output and its labels in an evaluation."""
        (made,) = self._called.values()
        return made.loss(output, labels)

    def is_of_training(self, prediction: Any, tape: Tape) -> bool:
        """Return whether a prediction is for what training picks: the nodes of a graph, all of
        which a model is given in training and in evaluations, with the same index for those of
        training."""
        picked = tape.recipes.picked(prediction)
        places = tape.recipes.sources(prediction) if picked is not None else frozenset()
        indices = [self._trained[place] for place in places if place in self._trained]
        return picked is not None and any(picked.is_same(each) for each in indices)

    def loss(self, tape: Tape, found: Any) -> tuple[str | None, Any] | None:
        """Return the loss of training that ``found`` is, as it is there: perhaps a multiple. Before
        it the place where its gradients are computed, None if functions compare what it is made
        of."""
        if not (isinstance(found, torch.Tensor) and found.numel() == 1):
            return None
        recipe = tape.recipes.of(found)
        known = None if recipe is None else self._computed.get(recipe)
        if known is None:
            return None
        value = found if known.multiple is None else found * known.multiple
        place = None if known.of_functions else known.place
        samples = len(tape.outputs[0]) * tape.recipes.times(found)
        return place, value * (known.samples / samples if known.samples else 1.0)

    def judged(self, tape: Tape, call: RecordedCall, found: Any) -> LossCall | None:
        """Return the loss by the labels that ``call`` compares with an output, or with
        predictions."""
        name = call.name
        if self._evaluates:
            return None
        if name in _SIZES and (made := self._differences.get(id(call.args[0]))):
            return made
        if name == SUM and call.args and id(call.args[0]) in call.given:
            known, others = [call.args[0]], [None]
        elif len(call.args) == 2 and name in _JUDGES:
            known = [each for each in call.args if id(each) in call.given]
            others = [
                e for e in call.args if id(e) not in call.given and isinstance(e, torch.Tensor)
            ]
        else:
            return None
        places = tape.recipes.sources(known[0]) if len(known) == len(others) == 1 else frozenset()
        place = next(iter(places)) if len(places) == 1 else -1
        if place not in self._called or self.is_of_training(known[0], tape):
            return None
        trained = self._called[place]
        if trained.has_numbers is not (name in _DIFFERENCES):
            return None
        output = trained.part_of(tape.outputs[place], tape.recipes.picked(known[0]))
        if output is None:
            return None
        if name not in _DIFFERENCES:
            labels = self._labels_of_classes(name, known[0], others[0], trained, tape)
            return None if labels is None else trained.loss(output, labels)
        plain = _picked(tape, known[0])
        whole = known[0] if plain is None else plain.of
        same = _is_same(tape.outputs[place], whole)
        if same or tape.recipes.is_limited(whole):  # a difference is judged when its size is asked
            made = trained.loss(output, others[0])
            if made is not None:
                self._differences[id(found)] = made
        return None

    def _labels_of_classes(
        self, name: str, known: Any, other: Any, trained: CalledLoss, tape: Tape
    ) -> Any:
        """The labels in what is compared, counted or joined with a prediction; None if there are
        none as yet."""
        if name in SAMES:
            return once(other)
        pairs = None if other is None else counted(name, known, other, trained.classes)
        if pairs is not None or not trained.is_binary or not tape.recipes.is_alone(known):
            return pairs
        if other is not None and not is_mask(name, other):
            return None
        return self._masks.labels(name, tape.recipes.of(known), other)


def _picked(tape: Tape, prediction: Any) -> Picked | None:
    """Return how a prediction was selected, if nothing was computed of it since."""
    picked = tape.recipes.picked(prediction)
    return picked if picked is not None and picked.is_plain else None


def _is_same(output: Any, prediction: Any) -> bool:
    """Return whether a prediction is an unchanged output, except for its shape."""
    if not (output.numel() == prediction.numel() and output.dtype == prediction.dtype):
        return False
    forms = [(each.shape, each.stride()) for each in (output, prediction)]
    alike = forms[0] == forms[1]  # channels may be last in memory
    alike = alike or (output.is_contiguous() and prediction.is_contiguous())
    return bool(alike and output.data_ptr() == prediction.data_ptr())


class _LabelMoments:
    """The mean and the deviation of the labels that were seen."""

    def __init__(self) -> None:
        self._sums: Any = 0.0

    def add(self, labels: Any) -> None:
        self._sums = self._sums + _sums(labels)

    def are_like(self, labels: Any) -> bool:
        """Return whether other labels have the scale of these: a similar mean and deviation."""
        count, total, squares = self._sums.tolist()
        own, own_total, own_squares = _sums(labels).tolist()
        mean, own_mean = total / count, own_total / own
        deviation = max(0.0, squares / count - mean**2) ** 0.5
        own_deviation = max(0.0, own_squares / own - own_mean**2) ** 0.5
        near = abs(own_mean - mean) <= _FAR * deviation
        return bool(near) and deviation <= _WIDER * own_deviation <= _WIDER**2 * deviation


def _sums(labels: Any) -> Any:
    wide = labels.detach().flatten().double()
    return torch.stack([torch.ones_like(wide).sum(), wide.sum(), wide.square().sum()])
