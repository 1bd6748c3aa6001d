"""Contracts on updates: which parameters are updated, with which gradients, and when."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from tocsin.model import Mode

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import BATCH_NORM, plain_attributes
from tocsin_hooks.torch.contracts.cut_offs import CutOffs
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.frozen import is_frozen_at_random
from tocsin_hooks.torch.contracts.remembered import Remembered
from tocsin_hooks.torch.contracts.rounding import rounds_to_zero
from tocsin_hooks.torch.gradients import LeftGradient, parameters_of
from tocsin_hooks.torch.reductions.plain import plain

_UPDATES = 20  # after which it is asked who is updated by nobody
_LAST = 60  # updates, after which nothing is checked
_LATE = 1000  # updates, after which what is frozen or still at first is not so any more
_STILL = 100  # updates of an optimizer, all with a rate of 0
_MOVED = -1  # in place of their number: there was another rate
_IN_A_ROW = 3
_MOST_MOMENTUM = 0.9
_WITH_PENALTY = (torch.optim.Adam, torch.optim.RMSprop, torch.optim.SGD)
_MOST_DECAY = 0.2
_SOFTMAXES = (torch.nn.Softmax, torch.nn.LogSoftmax)
_LAYERS = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d)
_MOST_FORGOTTEN = 0.5  # of all elements: where it is more, only the rest was to be trained


class UpdateContracts:
    """Checks the first updates of a model by its optimizers."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._cut_offs = CutOffs(found)
        self._updates = 0
        self._in_a_row = Counter[tuple[str, int]]()
        self._remembered = Remembered()
        self._optimizers: list[Any] = []
        self._foreign = WeakKeyDictionary[Any, int]()
        self._kept = WeakKeyDictionary[Any, list[LeftGradient]]()
        self._kept_now: set[int] = set()
        self._backwards = 0  # since the last update
        self._before_closure: int | None = None  # so many before a closure is called
        self._reached = False  # gradients were there since the last update
        self._still = WeakKeyDictionary[Any, int]()  # updates, as long as all have a rate of 0
        self._late: float = _LATE
        self._may_thaw = False  # what is frozen at random: an optimizer holds it
        self._rounds = ""  # where updates were lost so far

    @property
    def over(self) -> bool:
        return self._updates >= _LAST

    def detached(self, event: events.Detached) -> None:
        """Follow what is cut off in training."""
        if not self.over and self._found.step.mode is Mode.TRAIN:
            self._cut_offs.detached(event.tensor, script_line())

    def backward(self, _: events.Backward) -> None:
        """Keep what gradients are left, should it be the last backward pass."""
        self._backwards += 1
        self._kept_now = {
            id(optimizer)
            for optimizer, left in self._kept.items()
            if left and all(each.stays for each in left)
        }

    def backward_ends(self, _: events.BackwardEnds) -> None:
        for optimizer in self._known():
            if id(optimizer) in self._kept_now:  # and may be until the next one: they accumulate
                self._kept[optimizer] = _left(optimizer)
        held = (each for optimizer in self._known() for each in parameters_of(optimizer))
        self._reached = self._reached or any(each.grad is not None for each in held)

    def update_begins(self, event: events.UpdateBegins) -> None:
        root, optimizer, seen = event.model, event.optimizer, event.seen
        if (before := self._still.get(optimizer, 0)) >= 0:  # a rate may lie on a device
            self._still[optimizer] = before + 1 if _zero_lr(optimizer) else _MOVED
        if self.over:
            return
        if not any(each() is optimizer for each in self._optimizers):
            self._optimizers.append(ref(optimizer))
        self._before_closure = self._backwards if event.closure else None
        held = [*parameters_of(optimizer)]
        without = all(each.grad is None for each in held)
        if not event.closure:
            name = self._without_gradient(root) if without else ""
            trained = [each for each in held if each.requires_grad]
            name = name if trained else "optimizer_holds_only_frozen"
            useless = without and seen and not self._remembered.any_changed(root)
            self._count(name, optimizer, holds=useless)
            self._count("gradients_not_cleared", optimizer, holds=id(optimizer) in self._kept_now)
            idle = without and bool(trained)
            idle = idle and not any(map(self._remembered.has_changed, trained))
            self._count("optimizer_without_gradient", optimizer, holds=idle, enough=_UPDATES)
        still = all(map(_zero_lr, self._known()))  # one alone may begin later: see ``_judge_late``
        self._count("learning_rate_zero", optimizer, holds=still, enough=_UPDATES)
        if self._updates == 0:
            self._remembered.remember(root)
        elif not without:
            self._cut_offs.before_update(held, self._remembered.has_changed)

    def update_ends(self, event: events.UpdateEnds) -> None:
        root, optimizer = event.model, event.optimizer
        self._updates += 1
        if self._updates >= self._late:
            self._late = math.inf
            self._judge_late(root)
        if self._updates > _LAST:
            return
        if self._backwards and self._before_closure == self._backwards:  # it computed none
            self._count("gradients_not_cleared", optimizer, holds=id(optimizer) in self._kept_now)
        self._backwards = 0
        self._kept_now.clear()
        self._reached = False
        self._kept[optimizer] = _left(optimizer)
        if self._updates in (_UPDATES, _LAST - 1):
            if self._forgotten(root):
                self._found("parameter_in_no_optimizer")
            if self._hidden(root):
                self._found("layer_not_registered")
            if is_frozen_at_random(root):
                frozen = [each for each in root.parameters() if not each.requires_grad]
                self._may_thaw = len(_outside(self._known(), frozen)) < len(frozen)
                if not self._may_thaw:
                    self._found("frozen_random_weights")
            if _decays_most(optimizer):
                self._found("weight_decay_too_large")
            if _has_lost_its_eps(optimizer):
                self._found("eps_zero_in_half_precision")
            if self._updates > _UPDATES and self._rounds_to_zero():
                self._rounds = script_line()
            if any(map(_has_softmax_between, root.modules())):
                self._found("softmax_between_layers")
            if any(isinstance(each, BATCH_NORM) and _forgets(each) for each in root.modules()):
                self._found("batch_norm_momentum_too_large")

    def training_ends(self, event: events.TrainingEnds) -> None:
        if event.model is not None:
            self._judge_late(event.model)

    def _judge_late(self, root: Any) -> None:
        """Report, once, what is frozen or unchanged at the end of the training or late in it."""
        if self._may_thaw and is_frozen_at_random(root):
            self._may_thaw = False
            self._found("frozen_random_weights")
        if self._rounds and self._rounds_to_zero():
            self._found("updates_rounded_to_zero", self._rounds)
            self._rounds = ""
        still = [each for each, updates in self._still.items() if updates >= _STILL]
        if still:
            self._still.update(dict.fromkeys(still, _MOVED))
            self._found("learning_rate_zero")

    def updates_skipped(self, event: events.UpdatesSkipped) -> None:
        for optimizer, number in event.updates.items():
            if any(each() is optimizer for each in self._optimizers):
                self._updates += number
            if self._still.get(optimizer, _MOVED) >= 0:
                self._still[optimizer] += number

    def other_update_begins(self, event: events.OtherUpdateBegins) -> None:
        root, optimizer = event.model, event.optimizer
        self._kept_now.clear()  # the backward pass was its own, and the next one is not seen
        if self._optimizers or not self._backwards or self.over:
            return
        self._backwards = 0
        count = self._foreign[optimizer] = self._foreign.get(optimizer, 0) + 1
        if count == 1:
            self._remembered.remember(root)
        elif count == _UPDATES and not self._remembered.any_changed(root):
            trained = [each for each in root.parameters() if each.requires_grad]
            ours, its = _shapes(trained), _shapes(parameters_of(optimizer))
            has_gradients = any(each.grad is not None for each in trained)
            if has_gradients and (ours & its).total() >= max(1, ours.total() / 2):
                self._found("optimizer_of_another_model")

    def _without_gradient(self, root: Any) -> str:
        """The contract that is broken where no parameter of an optimizer has a gradient."""
        if self._backwards == 0 or self._reached:
            return "update_without_backward"
        others = (each for each in root.parameters() if each.grad is not None)
        return "optimizer_of_another_model" if _outside(self._known(), others) else "no_gradient"

    def _known(self) -> list[Any]:
        return [optimizer for each in self._optimizers if (optimizer := each()) is not None]

    def _count(self, name: str, optimizer: Any, *, holds: bool, enough: int = _IN_A_ROW) -> None:
        key = name, id(optimizer)
        self._in_a_row[key] = self._in_a_row[key] + 1 if holds else 0
        if self._in_a_row[key] == enough:
            self._found(name)

    def _rounds_to_zero(self) -> bool:
        moving = [each for each in self._known() if not _zero_lr(each)]
        return rounds_to_zero(moving, self._remembered)

    def _forgotten(self, root: Any) -> bool:
        """Return whether there are parameters with a gradient that no optimizer updates."""
        trained = [each for each in root.parameters() if each.requires_grad]
        forgotten = _outside(self._known(), (each for each in trained if each.grad is not None))
        size = sum(each.numel() for each in forgotten)
        return (
            0 < size <= _MOST_FORGOTTEN * sum(each.numel() for each in trained)
            and any(_is_nonzero(each.grad) for each in forgotten if not each.grad.is_sparse)
            and not any(self._remembered.was_changed(each) for each in forgotten)
            and len(_outside(_optimizers(), forgotten)) == len(forgotten)
        )

    def _hidden(self, root: Any) -> bool:
        """Return whether layers in plain Python lists or mappings get gradients, but no optimizer
        holds them.
        """
        optimizers = [*self._known(), *self._foreign]
        known = {id(each) for each in root.parameters()}
        known |= {id(each) for optimizer in optimizers for each in parameters_of(optimizer)}
        return any(
            each.grad is not None and id(each) not in known and _is_nonzero(each.grad)
            for layer in _unregistered(root)
            for each in layer.parameters()
        )


def _unregistered(root: Any) -> Iterator[torch.nn.Module]:
    for module in root.modules():
        for value in plain_attributes(module):
            inside = value.values() if isinstance(value, dict) else value
            if isinstance(value, dict | list | tuple):
                yield from (each for each in inside if isinstance(each, torch.nn.Module))


def _optimizers() -> list[Any]:
    """All optimizers of the process: one may begin to update later."""
    return [each for each in gc.get_objects() if issubclass(type(each), torch.optim.Optimizer)]


def _has_softmax_between(module: Any) -> bool:
    """Return whether a sequence of layers goes on after a softmax."""
    if not isinstance(module, torch.nn.Sequential):
        return False
    layers = [*module]
    ends = [at for at, each in enumerate(layers) if isinstance(each, _SOFTMAXES)]
    return bool(ends) and any(isinstance(each, _LAYERS) for each in layers[ends[0] + 1 :])


def _outside(optimizers: Iterable[Any], parameters: Iterable[Any]) -> list[Any]:
    """The parameters that none of the optimizers holds."""
    held = {id(each) for optimizer in optimizers for each in parameters_of(optimizer)}
    return [each for each in parameters if id(each) not in held]


def _decays_most(optimizer: Any) -> bool:
    """Return whether weight decay dominates: it pulls weights to 0 more than any prediction loss is
    likely to.
    """
    if not isinstance(optimizer, _WITH_PENALTY) or isinstance(optimizer, torch.optim.AdamW):
        return False
    groups = [each for each in optimizer.param_groups if not each.get("decoupled_weight_decay")]
    return any(float(each.get("weight_decay", 0.0)) >= _MOST_DECAY for each in groups)


def _has_lost_its_eps(optimizer: Any) -> bool:
    """Return whether ``eps``, which is added to a divisor, is 0 in the type of a weight."""
    return any(
        each.is_floating_point() and 0 < eps < torch.finfo(each.dtype).smallest_normal / 2**11
        for group in optimizer.param_groups
        if isinstance(eps := group.get("eps"), float)
        for each in group["params"]
    )


def _forgets(norm: Any) -> bool:
    """Return whether running statistics are those of about one batch: of Keras, 0.9 is the share
    that is kept."""
    share = norm.momentum if norm.track_running_stats else None
    return share is not None and bool(_MOST_MOMENTUM <= share < 1)


def _left(optimizer: Any) -> list[LeftGradient]:
    with_gradient = [each for each in parameters_of(optimizer) if each.grad is not None]
    return [LeftGradient(each) for each in with_gradient[:3]]


def _zero_lr(optimizer: Any) -> bool:
    return all(group.get("lr", 1.0) == 0 for group in optimizer.param_groups)


def _shapes(parameters: Iterable[Any]) -> Counter[Any]:
    return Counter(tuple(each.shape) for each in parameters)


def _is_nonzero(gradient: Any) -> bool:
    here = plain(gradient)
    return here is not None and bool(here.any())
