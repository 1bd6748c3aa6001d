"""Compares a loss with the loss of the same predictions and the labels of other samples."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import torch
from tocsin.model import ACTING, Mode

from tocsin_hooks.looks import skill_name
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.pairs import (
    Pair,
    chosen,
    is_comparable,
    pair_of,
    parts_of,
    samples_of,
)
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.comparisons.constants import Constant, constant_for
from tocsin_hooks.torch.comparisons.custom_loss import CustomLoss, Replayed

_PAIRINGS = 4
_BY_HAND = "loss"  # in place of a function's name
_MOST_SITES = 8  # lines of a script that call a loss
_MOST_CALLS = 2  # of one line, after one forward pass
_CONSTANT = 2  # the column of a comparison that the best constant has
_MOST_WAITING = 256  # comparisons between two saves: of more, two become one


class _Key(NamedTuple):
    """The place where a loss is called, and the form of its samples."""

    module: str | None
    place: str
    function: str
    shape: tuple[int, ...]


class Skill:
    """Compares losses when they are computed, and saves the comparisons with the next save.

    Each gives the loss, the mean loss of the same predictions with the labels of other samples,
    the loss of the best constant prediction by the labels of earlier calls, and the number of
    samples. All stays on the device.
    """

    def __init__(self, step: CurrentStep) -> None:
        self._step = step
        self._sites: dict[_Key, _Site] = {}
        self._by_hand: dict[_Key, CustomLoss] = {}
        self._calls: dict[_Key, int] = {}
        self._judged: dict[str, tuple[Any, Any, _Site]] = {}  # in this pass, by their function
        self.compared = 0
        """Comparisons so far."""

    def begin_pass(self) -> None:
        self._calls.clear()
        self._judged.clear()

    def compare(self, call: LossCall) -> None:
        if not is_comparable(call) or (
            self._step.mode is Mode.TRAIN and not call.prediction.requires_grad
        ):
            return
        shape = tuple(call.prediction.shape[1:])
        key = _Key(call.module, call.place, call.name, shape)
        self._calls[key] = self._calls.get(key, 0) + 1
        site = self._sites.get(key)
        if self._calls[key] > _MOST_CALLS or (site is None and len(self._sites) >= _MOST_SITES):
            return
        if site is None:
            site = self._sites[key] = _Site(self._free_name(call.module or "loss"), call.name)
        mode = self._step.mode
        self._look_for_two_labels(call, site)
        with torch.no_grad():
            for part in parts_of(call) if mode is Mode.EVAL else (call,):
                site.add(site.compare(part, mode, self._guess_of_training(key)), mode)
        self.compared += 1

    def _look_for_two_labels(self, call: LossCall, site: _Site) -> None:
        """A prediction that gets two labels, as one of a mix of two pictures does, is to be worse
        for each of them than it could be: it may be worse than a guess."""
        before, target, other = self._judged.get(call.name, (None, None, site))
        known = not (site.has_a_level or other.has_a_level)
        if not known and before is not None and before() is call.prediction:
            alike = target.shape == call.target.shape
            same = target is call.target or (alike and bool((target == call.target).all()))
            site.has_a_level = other.has_a_level = same
        self._judged[call.name] = ref(call.prediction), call.target, site

    def _guess_of_training(self, key: _Key) -> Constant | None:
        """The best constant by the labels of training, where a function is called with samples of
        this form there."""
        found = (
            site.constant(Mode.TRAIN)
            for each, site in self._sites.items()
            if (each.function, each.shape) == (key.function, key.shape)
        )
        return next((each for each in found if each is not None), None)

    def compare_by_hand(self, tape: Replayed, loss: Any, place: str) -> bool:
        """Compare a loss of the script's own; ``place`` is where gradients are computed of it.
        Whether that could be done."""
        self.compared += 1
        key = _Key(None, place, _BY_HAND, ())
        if key not in self._by_hand and len(self._by_hand) < _MOST_SITES:
            self._by_hand[key] = CustomLoss()
        made = self._by_hand.get(key)
        found = made.compare(tape, loss) if made and not made.has_given_up else None
        if found is None or (key not in self._sites and len(self._sites) >= _MOST_SITES):
            return False
        if key not in self._sites:
            self._sites[key] = _Site(self._free_name("loss"), _BY_HAND)
        self._sites[key].add(found, self._step.mode)
        return True

    def has_given_up(self, place: str) -> bool:
        """Return whether the loss by hand there cannot be compared."""
        made = self._by_hand.get(_Key(None, place, _BY_HAND, ()))
        return made is not None and made.has_given_up

    def ignores_order(self, place: str) -> bool:
        """Return whether the loss by hand there is the same in whichever order samples are
        predicted."""
        made = self._by_hand.get(_Key(None, place, _BY_HAND, ()))
        return made is not None and made.ignores_order

    def _free_name(self, own: str) -> str:
        before = sum((each.module or "loss") == own for each in self._sites)
        return f"{own}_{before}" if before else own

    def flush(self) -> None:
        """Add the comparisons since the last save of this mode to the current step."""
        for site in self._sites.values():
            rows = site.waiting.pop(self._step.mode, ())
            plan = self._step.plan(skill_name(site.name, site.kind)) if rows else None
            if plan is not None:
                found = torch.stack([*rows])
                if self._step.loss_kind == ACTING:  # what it learns moves with what it does
                    found[:, _CONSTANT] = torch.nan
                self._step.add([(plan, found)])

    def forget_calls(self, call: LossCall) -> None:
        """Discard the comparisons of a function at this line, and of evaluations that use it."""
        for key, site in self._sites.items():
            if key.function == call.name and (key.place == call.place or Mode.EVAL in site.waiting):
                site.waiting.clear()

    def forget(self) -> None:
        """Discard all comparisons."""
        for site in self._sites.values():
            site.waiting.clear()


class _Site:
    """A line that calls a loss: what has been compared there, and what is known of its labels."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.waiting: dict[Mode, list[Any]] = {}
        self.has_a_level = True
        """True if a training that learns makes the loss lower than that of a guess."""
        self._constants: dict[Mode, Constant | None] = {}
        self._alone: dict[Mode, deque[Pair]] = {}
        self._random = random.Random(0)  # noqa: S311 - not the script's, whose numbers stay

    def add(self, found: Any, mode: Mode) -> None:
        waiting = self.waiting.setdefault(mode, [])
        waiting.append(found)
        if len(waiting) == _MOST_WAITING:
            waiting[:] = _pooled(torch.stack(waiting)).unbind()

    def constant(self, mode: Mode) -> Constant | None:
        return self._constants.get(mode)

    def compare(self, call: LossCall, mode: Mode, trained: Constant | None) -> Any:
        """Compare once; ``trained`` guesses as long as labels of this mode are unknown."""
        pair = pair_of(call)
        samples = samples_of(call)
        if mode not in self._constants:
            self._constants[mode] = constant_for(call)
        constant = self._constants[mode]
        if samples == 1:
            own, count = pair, 1
            loss, other = _mean(call.value), self._with_earlier(call, pair, mode)
        else:
            own, count = chosen(call, pair, samples, self._random)
            whole = own.labels["target"] is pair.labels["target"]
            loss = _mean(call.value) if whole else _loss(call, own)
            other = self._with_others(call, own, count)
        best = None
        if constant is not None:
            guess = constant.guess(own.predictions["input"])
            judge = constant
            if guess is None and trained is not None:
                judge, guess = trained, trained.guess(own.predictions["input"])
            best = _loss(call, own, input=guess) if guess is not None else None
            best = judge.judged(best) if best is not None else None
            ours = trained if mode is Mode.EVAL and trained is not judge else None
            if best is not None and ours is not None:
                best = torch.maximum(best, _for_other_shares(call, own, ours))
            constant.learn(call)
            best = best if self.has_a_level or mode is not Mode.TRAIN else None
        wide = torch.float32 if loss.device.type == "mps" else torch.float64
        found = torch.full((4,), torch.nan, dtype=wide, device=loss.device)
        for place, each in enumerate((loss, other, best, count)):
            if each is not None:
                found[place] = each
        return found

    def _with_others(self, call: LossCall, own: Pair, count: Any) -> Any:
        """The mean loss with the labels of other samples; NaN if all labels are the same."""
        target = own.labels["target"]
        size = len(target)
        if isinstance(count, int):
            same = (target == target[:1]).all()
            shifts = self._random.sample(range(1, size), min(_PAIRINGS, size - 1))
            orders: list[Callable[[Any], Any]] = [partial(_rolled, shift) for shift in shifts]
        else:  # the first so many count: how many, the device knows
            places = torch.arange(size, device=target.device)
            same = ((target == target[:1]) | (places >= count)).all()
            last, all_of = (count - 1).clamp(min=1), count.clamp(min=1)
            parts = (self._random.random() for _ in range(_PAIRINGS))
            found = [(places + 1 + (part * last).long()) % all_of for part in parts]
            orders = [partial(_ordered, order) for order in found]
        losses = []
        for order in orders:
            others = {name: order(each) for name, each in own.predictions.items()}
            losses.append(_loss(call, Pair(others, own.labels)))
        return torch.where(same, torch.nan, torch.stack(losses).mean())

    def _with_earlier(self, call: LossCall, pair: Pair, mode: Mode) -> Any:
        """The same of a single sample: it gets the predictions of the last few before it."""
        earlier = self._alone.setdefault(mode, deque(maxlen=_PAIRINGS))
        target = pair.labels["target"]
        fit = [each for each in earlier if each.labels["target"].shape == target.shape]
        earlier.append(Pair(*({name: t.clone() for name, t in part.items()} for part in pair)))
        if not fit:
            return torch.full((), torch.nan, device=target.device)
        losses = [_loss(call, Pair(each.predictions, pair.labels)) for each in fit]
        same = torch.stack([(each.labels["target"] == target).all() for each in fit]).all()
        return torch.where(same, torch.nan, torch.stack(losses).mean())


def _rolled(shift: int, tensor: Any) -> Any:
    return tensor.roll(shift, 0)


def _ordered(order: Any, tensor: Any) -> Any:
    return tensor.index_select(0, order)


def _pooled(rows: Any) -> Any:
    """Comparisons two by two: means by the number of samples, and the sums of these."""
    pairs = rows.view(-1, 2, rows.shape[1])
    numbers = pairs[:, :, 3:]
    count = numbers.sum(1)
    return torch.cat([(pairs[:, :, :3] * numbers).sum(1) / count, count], 1)


def _for_other_shares(call: LossCall, own: Pair, trained: Constant) -> Any:
    """The loss of the guess by labels of training, which may have other shares of classes than
    those of an evaluation, as where rare ones are drawn more often; at most that of even shares."""
    like = own.predictions["input"]
    guess = trained.guess(like) if call.has_classes or call.name.startswith("binary") else None
    if guess is None:
        return torch.zeros((), device=like.device)
    level = {"binary_cross_entropy": 0.5, "nll_loss": -math.log(like.shape[min(1, like.dim() - 1)])}
    even = torch.full_like(like, level.get(call.name, 0.0))
    return torch.minimum(_loss(call, own, input=guess), _loss(call, own, input=even))


def _loss(call: LossCall, pair: Pair, **changed: Any) -> Any:
    arguments = {**call.arguments, **pair.predictions, **pair.labels, **changed}
    return _mean(call.function(**arguments))


def _mean(value: Any) -> Any:
    found = value.detach()
    return found.mean() if found.dim() else found
