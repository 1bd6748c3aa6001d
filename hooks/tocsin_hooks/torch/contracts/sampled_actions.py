"""Sampled actions, and their use until the model is updated."""

from __future__ import annotations

import sys
from enum import Enum, auto
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import DRAW_GAMMA
from tocsin_hooks.torch.calls.recipes import FORMS
from tocsin_hooks.torch.calls.recorded_call import tensors_of
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.graph import nodes_of

_TORCH = str(Path(str(torch.__file__)).parent)
_DISTRIBUTIONS = str(Path(str(torch.distributions.__file__)).parent)
_OWN = str(Path(__file__).parents[2])  # all of the hooks
_DRAWING = frozenset({DRAW_GAMMA, "bernoulli", "multinomial", "normal", "poisson", "rand", "randn"})


class _Place(Enum):
    """Of a function in the stack."""

    DISTRIBUTION = auto()
    BETWEEN = auto()
    SCRIPT = auto()


_IN_A_ROW = 3
_MOST_DRAWS = 1 << 14  # until an update
_MOST_ELEMENTS = 1 << 22  # of them: actions are small
_MOST_NODES = 20_000


class SampledActions:
    """Follows samples of ``torch.distributions``, by identity.

    The loss of a policy multiplies the log-probability of an action by its reward or advantage. So
    the environment has used that action before. An action from which nothing but its
    log-probability was computed was drawn a second time: the environment used another one.
    """

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._known: dict[int, tuple[Any, int]] = {}  # tensors, and which draw they are of
        self._draws = self._elements = 0
        self._used: set[int] = set()
        self._judged: dict[int, tuple[Any, str]] = {}  # the nodes of log-probabilities, and lines
        self._others = False  # log-probabilities of what was not drawn here
        self._losses: list[Any] = []
        self._again = 0  # updates in a row

    def update_ends(self, _: events.UpdateEnds) -> None:
        self._clear()

    def _clear(self) -> None:
        """Forget the actions: what comes now belongs to another update."""
        self._known, self._draws, self._used, self._judged = {}, 0, set(), {}
        self._elements = 0
        self._others, self._losses = False, []

    def backward(self, event: events.Backward) -> None:
        if self._judged and len(self._losses) < 2:
            self._losses.append(getattr(event.loss, "grad_fn", None))

    def called(self, event: events.Called) -> None:
        if self._others:  # there is nothing to find before the next update
            return
        found, name = event.found, getattr(event.function, "__name__", "")
        given = self._given(event.args, event.kwargs)
        if not given and name not in _DRAWING and not _needs_gradient(found):
            return
        frame = _of_distribution()
        results = tensors_of(found)
        method = "" if frame is None else frame.f_code.co_name
        if method == "sample":
            self._drawn(given, results, is_new=name in _DRAWING)
        elif method == "log_prob" and frame is not None:
            self._judge(frame, given, results)
        elif given and frame is None and name in FORMS:
            self._follow(given[0], results)
        else:
            self._used.update(given)

    def update_begins(self, event: events.UpdateBegins) -> None:
        """Judge whether actions were drawn a second time, before each of several updates."""
        if event.seen and not event.closure:
            place = self._not_used()
            self._again = 0 if place is None else self._again + 1
            if place is not None and self._again == _IN_A_ROW:
                self._found("actions_resampled", place)

    def _not_used(self) -> str | None:
        """The line that computes log-probabilities of draws that nothing else was computed from, if
        the loss is of no other ones."""
        if self._others or not self._judged or len(self._losses) != 1:
            return None
        if not self._used.isdisjoint(self._judged):
            return None
        nodes = set(nodes_of(self._losses[0], _MOST_NODES))
        return next((place for node, place in self._judged.values() if node in nodes), None)

    def _given(self, args: Any, kwargs: Any) -> list[int]:
        """Return the sampled actions among the arguments of a function."""
        if not self._known:
            return []
        return [self._known[id(t)][1] for t in tensors_of((args, kwargs)) if id(t) in self._known]

    def _drawn(self, given: list[int], results: list[Any], *, is_new: bool) -> None:
        if given:
            self._follow(given[0], results)
        elif is_new:
            self._draws += 1
            self._follow(self._draws, results)

    def _follow(self, draw: int, results: list[Any]) -> None:
        self._elements += sum(each.numel() for each in results)
        if self._draws > _MOST_DRAWS or self._elements > _MOST_ELEMENTS:
            self._clear()
            self._others = True
            return
        for each in results:
            if not each.requires_grad:
                self._known[id(each)] = each, draw

    def _judge(self, frame: FrameType, given: list[int], results: list[Any]) -> None:
        known = self._known.get(id(frame.f_locals.get("value")))
        for each in results:
            if each.requires_grad and known is None:
                self._others = True
            elif each.requires_grad and known is not None and given:
                self._judged.setdefault(known[1], (each.grad_fn, script_line()))
        if given and known is not None:
            self._follow(known[1], results)


def _needs_gradient(found: Any) -> bool:
    if isinstance(found, torch.Tensor):
        return bool(found.requires_grad)
    return any(each.requires_grad for each in tensors_of(found))


def _of_distribution() -> FrameType | None:
    """The outermost method of a distribution that a function was called in, None outside of one."""
    frame: FrameType | None = sys._getframe(1)
    found = None
    while frame is not None:
        place = _place(frame.f_code.co_filename)
        if place is _Place.DISTRIBUTION:
            found = frame
        elif place is _Place.SCRIPT:
            break
        frame = frame.f_back
    return found


@cache
def _place(file: str) -> _Place:
    if file.startswith(_DISTRIBUTIONS):
        return _Place.DISTRIBUTION
    return _Place.BETWEEN if file.startswith((_TORCH, _OWN)) else _Place.SCRIPT
