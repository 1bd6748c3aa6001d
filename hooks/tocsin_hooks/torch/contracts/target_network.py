"""Copies of a model that compute its target values, as the target network of Q-learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import torch
from tocsin.model import Mode

from tocsin_hooks.guard import Guard
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import version_of
from tocsin_hooks.torch.contracts.all_calls import AllCalls
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.remembered import Remembered
from tocsin_hooks.torch.gradients import parameters_of
from tocsin_hooks.torch.graph import parameters_near, picked_values
from tocsin_hooks.torch.reductions.plain import plain
from tocsin_hooks.torch.values import tensors_in

_SEEN = 3  # saved steps that look like learning of values
_LOOKS = 40  # updates, in which samples are compared
_MOST_UPDATES = 400  # for that
_HELD = 20  # updates, by which each optimizer has updated: what it holds is known
_WITHOUT_A_COPY = 60  # updates, after which there is none
_ALL = 0.98  # of the samples: while actions are random, hardly any environment stays as it is
_LEAST_ROWS = 8
_MOST_CALLS = 16  # between two updates
_MOST_NODES = 32  # from picked values to the parameters of the last layer
_AGAIN = 100  # updates, until it is looked whether a copy is still called
_SHORTLY = 3
_LATE = 500  # updates with one and the same copy, at the end of the training
_MUCH_TOO_LATE = 20_000


class _Call(NamedTuple):
    """A call of a module: what it was given, and how often that had been written into; whether
    gradients can go into what it gave, and whether that was a number for each sample; and the line
    of the script."""

    module: Callable[[], Any]
    given: list[Any]
    versions: list[int]
    trains: bool
    numbers: bool
    place: str


class TargetNetwork:
    """Recognises the copy of a model that computes the targets, if the training learns values.

    Such a copy values the next states, and the model the states before. So the two are never given
    the same samples, and the copy is renewed: else the targets are those of random weights to the
    end. It is one if it has the class and the shapes of a model that is updated, is not updated
    itself, and the loss is of values of the model that are picked by actions, or the model gives a
    number for what is given as two, a state and an action.
    """

    def __init__(self, found: Findings) -> None:
        self._found, self._step = found, found.step
        self._trouble = found.step.hook.trouble
        self._watched = AllCalls(self._called)
        self._calls: list[_Call] = []
        self._held = WeakKeyDictionary[Any, set[int]]()
        self._seen = self._updates = self._until = 0
        self._picked: set[int] = set()  # identities of parameters
        self._rows = self._same = 0.0
        self._looks = 0
        self._compared = False
        self._copy: Callable[[], Any] = lambda: None
        self._name = ""  # of the copy's class
        self._remembered = Remembered()
        self._since = self._called_at = self._unchanged_at = 0
        self._deleted_in = -1  # step of training
        self._over = False
        self._again = _AGAIN

    @property
    def are_known(self) -> bool:
        """Return whether a copy was compared: so the targets move, and a loss may rise with
        them."""
        return self._compared

    @property
    def look(self) -> bool:
        """Return whether calls have to be checked."""
        return self._watched.are_open

    def updates_skipped(self, event: events.UpdatesSkipped) -> None:
        self._updates += sum(event.updates.values()) if self._seen >= _SEEN else 0

    def backward(self, event: events.Backward) -> None:
        """Look in saved steps for values that are picked, and for models that may value what is
        given as two."""
        if self._over or not self._step.saving:
            return
        two = self._step.loss_kind is not None or len(event.inputs.tensors) > 1
        picked = picked_values(event.loss)
        self._picked |= parameters_near(picked, _MOST_NODES)
        if self._seen < _SEEN:
            self._seen += two or picked is not None
            if self._seen == _SEEN:
                self._watch(_MOST_UPDATES)

    def close(self) -> None:
        self._watched.close()
        self._calls = []

    def update_begins(self, event: events.UpdateBegins) -> None:
        self._updating(event.optimizer)

    def other_update_begins(self, event: events.OtherUpdateBegins) -> None:
        self._updating(event.optimizer)

    def _updating(self, optimizer: Any) -> None:
        """Handle the start of an update. Waits for the device."""
        if self._over:
            return
        if optimizer not in self._held:
            self._held[optimizer] = {*map(id, parameters_of(optimizer))}
        if self._seen < _SEEN:
            return
        with Guard(self._trouble, "copies of the model are not checked"):
            self._updates += 1
            calls, self._calls = self._calls, []
            self._watched.restart()
            self._look(self._pairs(self._held[optimizer], calls))
            copy = self._copy()
            if copy is None and not self._looks and self._updates >= _WITHOUT_A_COPY:
                self._until = self._updates
            if copy is not None and self._updates >= self._again:
                self._again = self._updates + _AGAIN
                self._watch(_SHORTLY)
                self._is_renewed(copy)
            if copy is not None and self._updates - self._since >= _MUCH_TOO_LATE:
                self._ended()
            if self._updates >= self._until:
                self._over = self._over or self._copy() is None
            if self._over or self._updates >= self._until:
                self.close()

    def training_ends(self, _: events.TrainingEnds) -> None:
        self._ended()

    def _ended(self) -> None:
        """The training is over, or long: says whether the copy is still the one that it was."""
        copy, self._over = self._copy(), True
        self.close()
        if self._updates - self._since < _LATE or not self._is_late(self._called_at):
            return
        if copy is not None:
            unchanged = not self._remembered.any_changed(copy)
        else:  # a function that trains may have ended, and deleted it
            unchanged = self._deleted_in == self._steps and self._is_late(self._unchanged_at)
        if unchanged:
            self._found("target_network_never_updated", self._name)

    def _is_late(self, update: int) -> bool:
        return self._updates - update <= 2 * _AGAIN

    @property
    def _steps(self) -> int:
        return self._step.hook.counters[Mode.TRAIN]

    def _deleted(self, _: object) -> None:
        self._deleted_in = self._steps

    def _watch(self, updates: int) -> None:
        self._until = max(self._until, self._updates + updates)
        self._watched.open()

    def _look(self, pairs: list[tuple[_Call, _Call]]) -> None:
        """Look at calls of the model and its copy. Of several of the model it is the one that was
        given the most other samples: it may value next states, too, to choose the action there."""
        if not self._compared and any(_are_given_the_same(*both) for both in pairs):
            self._over = True  # another kind of copy, as the reference of a policy
            return
        if not pairs:
            return
        own, other = min(pairs, key=lambda both: _equal(both[0].given[0], both[1].given[0]) or 0)
        copy = other.module()
        if self._copy() is None and not self._compared:
            self._copy, self._since = ref(copy, self._deleted), self._updates
            self._name = type(copy).__name__
            self._remembered.remember(copy)
        if copy is self._copy():
            self._called_at = self._updates
        equal = [_equal(*both) for both in zip(own.given, other.given, strict=False)]
        if self._compared or equal[0] is None:
            return
        self._looks += 1
        self._rows += len(own.given[0])
        # The action is another one. Of a state in two parts, one may stay as it is.
        self._same += equal[0] if own.numbers else min(each or 0 for each in equal)
        if self._looks == _LOOKS:
            self._compared = True
            self._until = self._updates
            if self._same >= _ALL * self._rows:
                self._found("next_state_equals_state", other.place)
                self._over = True

    def _pairs(self, held: set[int], calls: list[_Call]) -> list[tuple[_Call, _Call]]:
        """Calls of a model that is updated, and of a copy."""
        all_held = set[int]().union(*self._held.values())
        calls = [each for each in calls if each.versions == [*map(version_of, each.given)]]
        known = [(each, module) for each in calls if (module := each.module()) is not None]
        return [
            (own, other)
            for own, model in known
            if (_is_held(model, self._picked) or (own.numbers and len(own.given) > 1))
            and own.trains
            and _is_held(model, held)
            for other, copy in known
            if type(copy) is type(model)
            and _shapes(copy) == _shapes(model)
            and not (self._updates < _HELD and other.trains and _has_gradients(copy))
            and not _is_held(copy, all_held)
        ]

    def _is_renewed(self, copy: Any) -> None:
        if self._remembered.any_changed(copy):
            self._over = self._over or self._compared
            self._copy, self._deleted_in = (lambda: None), -1
        else:
            self._unchanged_at = self._updates

    def _called(self, module: Any, args: Any, output: Any) -> None:
        if len(self._calls) >= _MOST_CALLS:
            return
        with Guard(self._trouble, "copies of the model are not checked"):
            given = [each for _, each in tensors_in(args, 2) if each.dim() > 1]
            gave = next((each for _, each in tensors_in(output, 1)), None)
            if gave is None or not given or len(given[0]) < _LEAST_ROWS:
                return
            numbers = gave.numel() == len(given[0])
            place, trains = script_line(), gave.requires_grad
            call = _Call(ref(module), given, [*map(version_of, given)], trains, numbers, place)
            self._calls.append(call)


def _are_given_the_same(one: _Call, other: _Call) -> bool:
    """Return whether two calls were given the same altogether, or all that comes with other
    samples."""
    pairs = zip(one.given[1:], other.given[1:], strict=False)
    return any(_equal(*both) == len(one.given[0]) for both in pairs)


def _equal(one: Any, other: Any) -> int | None:
    """The number of samples that are the same in both; None where they cannot be compared."""
    one, other = plain(one), plain(other)
    if one is None or other is None or one.shape != other.shape or one.device != other.device:
        return None
    return int((one == other).flatten(1).all(1).sum())


def _is_held(module: Any, held: set[int]) -> bool:
    return any(id(each) in held for each in module.parameters())


def _has_gradients(module: Any) -> bool:
    """Return whether any went into it: what ``target(state).detach()`` gives could have got
    some."""
    return any(each.grad is not None for each in module.parameters())


def _shapes(module: Any) -> list[torch.Size]:
    return [each.shape for each in module.parameters()]
