"""Recomputes a loss from other outputs of a model, however the script computes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch

from tocsin_hooks.torch.autograd import version_of
from tocsin_hooks.torch.calls.growth import Growth
from tocsin_hooks.torch.calls.recipes import Recipes
from tocsin_hooks.torch.calls.recorded_call import Copied, RecordedCall, tensors_of

_MOST_CALLS = 512  # between the outputs and a loss
_MOST_ELEMENTS = 1 << 23  # in all that they give

_IN_PLACE = frozenset(
    f"__i{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
) | {"__setitem__"}
_RANDOM = re.compile(
    r"\w*dropout\w*|bernoulli_?|binomial|gumbel_softmax|multinomial|normal_?|poisson|rrelu_?"
    r"|rand(n|int)?_like|(cauchy|exponential|geometric|log_normal|random|uniform)_"
    r"|scaled_dot_product_attention"
)
_DRAWS = frozenset({"multinomial", "normal"})
_CHANGES_ITS_ARGUMENTS = frozenset({"batch_norm", "instance_norm"})  # running means
_BY_FORM = frozenset({"expand_as", "reshape_as", "type_as", "view_as"})  # of their second argument
_MULTIPLES = frozenset({"mean", "sum", "mul", "div", "to", "float", "double", "squeeze"}) | {
    f"__{name}__" for name in ("mul", "rmul", "truediv")
}
_SUMS = frozenset({"add", "__add__", "__radd__"})


class CannotReplay(Exception):
    """A computation that cannot be repeated."""


class Tape:
    """The calls that lead from the outputs of a model to a loss, recorded from the forward pass on.

    It knows tensors by identity and keeps them alive: clear it soon. What depends on chance, or
    changes something besides what it gives, ends the recording.
    """

    def __init__(self) -> None:
        self.outputs: list[Any] = []
        self.elements = 0
        """Of all tensors that were computed from the outputs."""
        self.drawn = False
        """True if something was drawn with probabilities that the outputs give, as an action is."""
        self._held = 0  # elements of the outputs
        self._known: dict[int, Any] = {}
        self._versions: list[int] = []
        self._calls: list[RecordedCall] = []
        self.recipes = Recipes()
        self._growth = Growth()

    @property
    def is_recording(self) -> bool:
        return bool(self.outputs)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    @property
    def is_full(self) -> bool:
        """Return whether its outputs are too large to keep with those of other passes."""
        return self._held > _MOST_ELEMENTS

    def begin(self, outputs: Iterable[Any], *, training: bool = True) -> None:
        """Record calls on these outputs and on those of earlier passes."""
        self.recipes.begin(training=training)
        for each in outputs:
            if (each.requires_grad or not training) and each.dim() and id(each) not in self._known:
                place = len(self.outputs)
                self.outputs.append(each)
                self._held += each.numel()
                self._versions.append(version_of(each))
                self._known[id(each)] = each
                self.recipes.add_output(id(each), place)

    def clear(self) -> None:
        """Discard all recorded calls, and stop recording."""
        self.outputs, self._known, self._versions, self._calls = [], {}, [], []
        self.recipes.clear()
        self._growth.clear()
        self.elements = self._held = 0

    def before(
        self, function: Any, args: Any, kwargs: Any, caller: Callable[..., Any]
    ) -> RecordedCall | None:
        """Return the call of a function that is to begin; None if it gets nothing that is known."""
        given = frozenset(map(id, tensors_of((args, kwargs)))) & self._known.keys()
        if not given:
            return None
        name = getattr(function, "__name__", "")
        if name in _BY_FORM and id(args[0]) not in given:
            return None
        unlike = _RANDOM.fullmatch(name) is not None or name in _CHANGES_ITS_ARGUMENTS
        if (unlike and kwargs.get("training") is not False) or kwargs.get("out") is not None:
            self.drawn = self.drawn or name in _DRAWS
            self.clear()
            return None
        if _is_in_place(name) and id(args[0]) not in given:
            given |= {id(args[0])}
            args = (Copied(args[0].detach().clone()), *args[1:])
        constants = [(each, version_of(each)) for each in tensors_of((args, kwargs))]
        constants = [each for each in constants if id(each[0]) not in self._known]
        precision = _precision(self.outputs[0].device.type)
        return RecordedCall(function, args, kwargs, given, constants, precision, caller)

    def after(self, call: RecordedCall, target: Any, found: Any) -> None:
        """Record the result ``found`` of a call; ``target`` is its first argument, which it may
        have changed.
        """
        results = [target] if _is_in_place(call.name) else tensors_of(found)
        if not results:
            return
        self._known.update((id(each), each) for each in results)
        self.elements += sum(each.numel() for each in results)
        keys = tuple(id(each) for each in results)
        self.recipes.called(call, dict(zip(keys, results, strict=True)))
        if len(results) == 1 and results[0].numel() == 1:
            self._growth.called(call.name, call.args, call.kwargs, results[0], len(self.outputs[0]))
        self._calls.append(replace(call, found=keys))
        if len(self._calls) > _MOST_CALLS or self.elements > _MOST_ELEMENTS:
            self.clear()

    def leads_to(self, loss: Any) -> bool:
        return id(loss) in self._known

    def parts_of(self, loss: Any) -> Iterator[tuple[int, Any, bool | None]]:
        """Yield the recipe of the loss, and those of the numbers that it is a multiple of; how many
        times each, None of the loss itself; and whether it grows with the number of samples, as a
        sum; None where that is not known.

        A tensor that does not depend on the outputs, as a penalty, may have been added on the way.
        A constant is a part of the loss.
        """
        wanted, whole, scale = id(loss), loss, 1.0
        for call in reversed(self._calls):
            if wanted not in call.found:
                continue
            name, found = call.name, self._known[wanted]
            made = self.recipes.of(found)
            if made is not None and found.numel() == 1:
                times = None if found is loss else (scale * whole / found).detach()
                yield made, times, self._growth.of(found)
            penalised = name in _SUMS and any(each.dim() == 0 for each, _ in call.versions)
            if not (penalised or name in _MULTIPLES) or len(call.given) != 1:
                return
            (wanted,) = call.given
            if penalised:
                whole, scale = self._known[wanted], scale * whole / found

    def replay(self, loss: Any, changed: Callable[[Any], Any], of: Sequence[Any]) -> Any:
        """Return the loss, as a number on its device, with some outputs ``changed``.

        Raises CannotReplay, and what the functions raise.
        """
        values: dict[int, Any] = {}
        with torch.no_grad():
            for each, version in zip(self.outputs, self._versions, strict=True):
                if version_of(each) != version:
                    raise CannotReplay
                own = each.detach()
                values[id(each)] = changed(own) if any(each is one for one in of) else own.clone()
            for call in self._needed(loss):
                if any(version_of(each) != version for each, version in call.versions):
                    raise CannotReplay
                args, kwargs = _swapped(call.args, values), _swapped(call.kwargs, values)
                with _as_then(call, loss.device.type):
                    found = call.again(args, kwargs)
                in_place = _is_in_place(call.name)
                results = [args[0]] if in_place else tensors_of(found)
                values.update(zip(call.found, results, strict=True))
            return values[id(loss)].detach().mean()

    def _needed(self, loss: Any) -> list[RecordedCall]:
        needed, calls = {id(loss)}, []
        for call in reversed(self._calls):
            if not needed.isdisjoint(call.found):
                needed |= call.given
                calls.append(call)
        return calls[::-1]


def _precision(device: str) -> Any:
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


def _as_then(call: RecordedCall, device: str) -> AbstractContextManager[object]:
    now = call.precision is not None
    if not now and not torch.is_autocast_enabled(device):
        return nullcontext()
    found: AbstractContextManager[object] = torch.autocast(
        device, dtype=call.precision, enabled=now
    )
    return found


def _is_in_place(name: str) -> bool:
    return name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))


def _swapped(value: Any, values: Mapping[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return values.get(id(value), value)
    if isinstance(value, Copied):
        return value.tensor.clone()
    if isinstance(value, list | tuple):
        return type(value)([_swapped(each, values) for each in value])
    if isinstance(value, dict):
        return {key: _swapped(each, values) for key, each in value.items()}
    return value
