"""Finds two models that should be opponents, as those of a GAN, but are trained in the same
direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tocsin_hooks.guard import Guard, Report
from tocsin_hooks.torch import events
from tocsin_hooks.torch.contracts.all_calls import AllCalls
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.gradients import parameters_of
from tocsin_hooks.torch.graph import before_views
from tocsin_hooks.torch.values import tensors_in

_AGREED = 50  # turns in a row
_OPPOSED = 10  # turns, after which they are opponents
_MOST_UPDATES = 400
_ALIKE = 0.95  # of the samples, whose scores are pulled in one direction
_MOST_TENSORS = 4
_MOST_MADE = 8
_MOST_CALLS = 64  # between two updates


class _Numbers(NamedTuple):
    """The numbers of a tensor, by where they lie; they are not kept alive."""

    storage: StorageWeakRef
    place: int
    shape: Any

    @classmethod
    def of(cls, tensor: Any) -> _Numbers:
        storage = StorageWeakRef(tensor.untyped_storage())
        return cls(storage, tensor.data_ptr(), tensor.shape)

    def are_in(self, tensor: Any) -> bool:
        same = tensor.data_ptr() == self.place and tensor.shape == self.shape
        return bool(same and not self.storage.expired())


class _Made(NamedTuple):
    """The output of a module: its numbers, and the tensor with its graph."""

    numbers: _Numbers
    tensor: Callable[[], Any]
    module: Callable[[], Any]

    def leads_to(self, other: Any) -> bool:
        """Return whether gradients of another tensor of the same numbers come here as they are."""
        tensor = self.tensor()
        return tensor is not None and before_views(other.grad_fn) is before_views(tensor.grad_fn)


@dataclass
class _Score:
    """The output of a module for samples, and the signs of the gradients of that until the next
    update."""

    module: Callable[[], Any]
    maker: Callable[[], Any] | None  # of the samples
    attached: bool  # gradients go on into the maker
    gradients: list[Any] = field(default_factory=list)
    is_kept: bool = False  # over an update


class Agreement:
    """Compares the directions in which two optimizers change the scores of generated samples.

    One that tells real samples from made ones pulls the scores of the two apart; who makes them is
    to pull theirs back. Where both pull them in the same direction for many turns, a label or a
    sign is wrong. Nothing is watched any more once that is known, or that they are opponents.
    """

    def __init__(self, found: Findings) -> None:
        self._found, self._trouble = found, found.step.hook.trouble
        self._calls = AllCalls(self._called)
        self._made: list[_Made] = []
        self._scores: list[_Score] = []
        self._held = WeakKeyDictionary[Any, set[int]]()
        self._directions: tuple[Any, int] | None = None  # of the scores of made samples
        self._updates = self._agreed = self._opposed = 0

    def opponents_known(self, _: events.OpponentsKnown) -> None:
        self._calls.open()

    @property
    def look(self) -> bool:
        """Return whether calls have to be checked."""
        return self._calls.are_open

    def training_ends(self, _: events.TrainingEnds) -> None:
        self._close()

    def update_begins(self, event: events.UpdateBegins) -> None:
        self._updating(event.optimizer)

    def other_update_begins(self, event: events.OtherUpdateBegins) -> None:
        self._updating(event.optimizer)

    def _close(self) -> None:
        self._calls.close()
        self._made, self._scores, self._directions = [], [], None

    def _updating(self, optimizer: Any) -> None:
        """Handle the start of an update. Waits for the device."""
        if self._calls.are_open:
            with Guard(self._trouble, "opponents are not compared"):
                self._compare(optimizer)

    def _compare(self, optimizer: Any) -> None:
        self._calls.restart()
        self._updates += 1
        if self._updates > _MOST_UPDATES:
            self._close()
            return
        scores, self._scores = self._scores, []
        judged = (each.module for each in scores if each.gradients and each.maker is not None)
        if any(self._holds(optimizer, each) for each in judged):
            self._directions = self._of_judge(optimizer, scores)
        if self._directions is not None:
            self._turn_of_maker(optimizer, scores, *self._directions)
        # Gradients of the others may come before the next update, not later.
        kept = [e for e in scores if not (e.gradients or e.attached or e.is_kept)]
        self._scores = [replace(each, is_kept=True) for each in kept]
        if self._agreed >= _AGREED:
            self._found("gan_losses_agree")
        if self._agreed >= _AGREED or self._opposed >= _OPPOSED:
            self._close()

    def _of_judge(self, optimizer: Any, scores: list[_Score]) -> tuple[Any, int] | None:
        """The module that judges and the direction in which it pulls the scores of made samples, if
        it pulls those of real ones in the other."""
        own = [each for each in scores if self._holds(optimizer, each.module)]
        made = [e for e in own if e.maker is not None and not self._holds(optimizer, e.maker)]
        made = [each for each in made if not each.attached] or made
        real = [each for each in own if each.maker is None]
        down, up = _direction(made), _direction(real)
        return (made[0].module, down) if down and up == -down else None

    def _turn_of_maker(
        self, optimizer: Any, scores: list[_Score], judge: Any, direction: int
    ) -> None:
        pulled = [e for e in scores if e.attached and self._holds(optimizer, e.maker)]
        pulled = [e for e in pulled if e.module() is judge() and not self._holds(optimizer, judge)]
        if not (found := _direction(pulled)):
            return
        agree = found == direction
        self._agreed = self._agreed + 1 if agree else 0
        self._opposed += not agree

    def _holds(self, optimizer: Any, module: Callable[[], Any] | None) -> bool:
        if optimizer not in self._held:
            self._held[optimizer] = {*map(id, parameters_of(optimizer))}
        found = None if module is None else module()
        first = None if found is None else next(found.parameters(), None)
        return first is not None and id(first) in self._held[optimizer]

    def _called(self, module: Any, args: Any, output: Any) -> None:
        with Guard(self._trouble, "opponents are not compared"):
            self._score(module, args, output)

    def _score(self, module: Any, args: Any, output: Any) -> None:
        if next(module.parameters(), None) is None:
            return
        given = [each for _, each in tensors_in(args, _MOST_TENSORS)]
        gave = [each for _, each in tensors_in(output, 1)]
        if not gave or not gave[0].is_floating_point():
            return
        sources = (
            (one, each)
            for each in given
            for one in self._made
            if one.module() is not module and one.numbers.are_in(each)
        )
        maker, attached, is_plain = None, False, True
        for one, taken in islice(sources, 1):
            maker, attached = one.module, taken.requires_grad
            # What reverses gradients on the way, as for domains, has a node of its own.
            is_plain = not attached or one.leads_to(taken)
        if gave[0].requires_grad and is_plain and len(self._scores) < _MOST_CALLS:
            score = _Score(ref(module), maker, attached)
            self._scores.append(score)
            gave[0].register_hook(_keep(score.gradients, self._trouble))
        made = _Made(_Numbers.of(gave[0]), ref(gave[0]), ref(module))
        self._made = [*self._made[-_MOST_MADE:], made]


def _keep(signs: list[Any], trouble: Report) -> Callable[[Any], None]:
    """Keeps of gradients how many are above 0 more than below, how many are not 0, and all."""

    def arrived(gradient: Any) -> None:
        with Guard(trouble, "opponents are not compared"):
            # Else it is that of a penalty on derivatives, or of another output.
            if gradient is not None and not torch.is_grad_enabled():
                sign = gradient.detach().sign().float()
                signs.append((sign.sum(), sign.abs().sum(), sign.numel()))

    return arrived


def _direction(scores: list[_Score]) -> int:
    """The sign of the gradients of almost all scores; 0 where they have not one and the same."""
    known = [each for score in scores for each in score.gradients]
    if not known:
        return 0
    count = max(1, sum(each[2] for each in known))
    mean, seen = (sum(float(each[at]) for each in known) / count for at in (0, 1))
    return 0 if seen < 0.5 or abs(mean) < _ALIKE * seen else (1 if mean > 0 else -1)
