"""Grouping of forward passes without training into evaluations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import torch

_WITHOUT_LOSS = 2
"""After so many steps of doubtful passes without any loss such passes are no evaluations."""
_LATEST = 20  # updates
_FEWEST = 0.25  # passes for each update, of a model that acts from the start on
_STATES = 8  # updates before which the model saw a sample or two, as where it acts now and then
_FEWEST_STATES = 0.05  # of these, for each update
_BURST = 8  # calls of parts between two updates
_BURSTS = 2
_MANY = 3
_FEWEST_OF_PARTS = 2  # calls for each update


class EvaluationDetector:
    """Decides for each forward pass that trains nothing whether a step of EVAL begins with it.

    An evaluation is all such passes until the model is trained again. A pass is *doubtful* if so
    may act a policy, or samples be generated: in training mode, or with a single sample. A step of
    nothing else, without a loss and without tensors that the script saves, is none.

    ``whole``: somebody else knows where evaluations begin and end, and no pass is doubtful.
    ``each_pass``: each pass is a step of its own, as smdebug counts.
    """

    def __init__(self) -> None:
        self.whole = self.each_pass = False
        self._updated = False
        self._doubtful = False
        self._acted = False  # since the last update
        self._latest = deque[bool](maxlen=_LATEST)  # updates: whether the model acted before
        self._updates = 0
        self._passes = 0  # without gradients, in training mode
        self._from_start = False  # one of them came before the first update
        self._rolls = False  # and since the last one, as acting
        self._rollouts = 0  # updates before which that was so
        self._ones = self._states = 0
        self._alone, self._together = set[str](), set[str]()
        # What was trained on one sample since then, and on several: the model, or parts of it.
        self._asides = self._asides_now = 0  # calls of parts without gradients, in training mode
        self._bursts = 0  # updates before which there were many of these

    @property
    def acts(self) -> bool:
        """Return whether the model acted before half of the latest updates.

        Or, as in proximal policy optimisation, now and then from the start on, with many passes:
        a model that generates samples now and then has been trained before. Or, as where most
        actions are drawn at first, before some updates, for a single sample or two. Parts that are
        called are not seen before the first update: of these, more calls count.
        """
        if len(self._latest) == _LATEST and 2 * sum(self._latest) >= _LATEST:
            return True
        if self._bursts >= _BURSTS and self._asides >= _FEWEST_OF_PARTS * self._updates:
            return True
        if self._states >= max(_STATES, _FEWEST_STATES * self._updates):
            return True
        many = self._passes >= _FEWEST * self._updates
        return self._from_start and self._rollouts > 0 and many

    def acted(self) -> None:
        """Record that the model is trained on outputs that it computed without gradients."""
        self._acted = True

    def trained(self, samples: int, part: str = "") -> None:
        """A pass with gradients, of the model or of a ``part``. Single samples before a batch are
        states in which it acts."""
        if samples:
            (self._alone if samples == 1 else self._together).add(part)

    def called_aside(self) -> None:
        """Record a call of a part of the model without gradients, in training mode."""
        self._asides += 1
        self._asides_now += 1

    def updated(self) -> None:
        """Handle an update of the model: an evaluation before it is over."""
        self._updated = True
        self._updates += 1
        self._rollouts += self._rolls
        self._states += self._rolls and 1 <= self._ones <= 2
        self._ones = 0
        self._latest.append(self._acted or not self._alone.isdisjoint(self._together))
        self._bursts += self._asides_now >= _BURST
        self._asides_now = 0
        self._acted = self._rolls = False
        self._alone.clear()
        self._together.clear()

    def skipped(self, updates: int) -> None:
        """There were so many updates more, with as much before each of them as so far."""
        more = updates / max(self._updates, 1)
        self._updates += updates
        self._passes += round(more * self._passes)
        self._states += round(more * self._states)
        self._asides += round(more * self._asides)

    def is_none(self, training: bool, samples: int, *, meant: bool, without_meaning: int) -> bool:
        """Return whether the pass, in ``training`` mode or not, belongs to no evaluation.
        ``meant``: one is going on for sure; ``without_meaning`` steps in a row were none."""
        acts = training and not torch.is_grad_enabled()
        self._doubtful = not self.whole and (acts or samples == 1)
        none = self._doubtful and not meant and self.are_none(without_meaning)
        self._passes += acts
        self._from_start = self._from_start or (acts and not self._updates)
        self._rolls = self._rolls or (none and acts)
        self._acted = self._acted or none
        self._ones += acts if samples == 1 else _MANY
        return none

    def are_none(self, without_meaning: int) -> bool:
        """Return whether doubtful passes are no evaluations, after so many such steps without a
        loss."""
        return without_meaning >= _WITHOUT_LOSS

    @property
    def is_meant(self) -> bool:
        """Return whether the pass is part of an evaluation for sure."""
        return not self._doubtful

    def begins(self, *, goes_on: bool, meant: bool) -> bool:
        """Return whether a step begins with the pass. ``goes_on``: there is one, which is
        ``meant``."""
        first = not goes_on or self._updated or (not meant and self.is_meant) or self.each_pass
        self._updated = False
        return first


class ModeArgument:
    """The argument ``training`` of models that Keras made, which stay in the mode of training.

    A script may train with ``training=False`` as well, to keep running means as they are: from the
    first update on that follows such a pass it says nothing where there are gradients.
    """

    def __init__(self) -> None:
        self._is_off = self._trains = False

    def evaluates(self, kwargs: Mapping[str, Any]) -> bool:
        """Return whether a pass with these arguments is one of evaluation."""
        gradients = torch.is_grad_enabled()
        is_off = kwargs.get("training") is False
        self._is_off = is_off and gradients
        return is_off and not (self._trains and gradients)

    def updated(self) -> None:
        self._trains |= self._is_off


def samples_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Return the number of samples in the inputs of a model: the length of the first tensor that
    has one.
    """
    for each in chain(args, kwargs.values()):
        for tensor in _tensors(each):
            if tensor.dim():
                return len(tensor)
    return 1


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from (each for each in value.values() if isinstance(each, torch.Tensor))
    elif isinstance(value, list | tuple):
        yield from (each for each in value if isinstance(each, torch.Tensor))
