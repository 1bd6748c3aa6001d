"""Computes a loss again from other outputs of a model, whatever the script computes it with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from tocsin_hooks.torch.calls.growth import Growth
from tocsin_hooks.torch.calls.picks import Picked, Picks

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
FORMS = frozenset(  # whose results have the numbers of their first argument
    {
        "bfloat16",
        "clone",
        "contiguous",
        "cpu",
        "cuda",
        "detach",
        "double",
        "flatten",
        "float",
        "half",
    }
    | {"ravel", "reshape", "squeeze", "to", "type", "unsqueeze", "view"}
)
_JOINS = frozenset({"cat", "concat", "concatenate"})
_MULTIPLES = frozenset({"mean", "sum", "mul", "div", "to", "float", "double", "squeeze"}) | {
    f"__{name}__" for name in ("mul", "rmul", "truediv")
}
_SUMS = frozenset({"add", "__add__", "__radd__"})


class CannotReplay(Exception):
    """What was computed cannot be computed a second time."""


@dataclass(frozen=True)
class Copied:
    """A tensor as it was before a function changed it."""

    tensor: Any


@dataclass(frozen=True)
class RecordedCall:
    """A call of a function of PyTorch that was given something which depends on an output.

    ``versions``: of the tensors that do not, to see whether they were changed since.
    ``precision``: that of autocast at the time, None without it.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    given: frozenset[int]
    versions: Sequence[tuple[Any, int]]
    precision: Any
    found: tuple[int, ...] = ()


class Tape:
    """The calls that lead from the outputs of a model to a loss, from the forward pass on.

    It knows tensors by identity and keeps them alive: clear it soon. What depends on chance, or
    changes something besides what it gives, ends the recording.
    """

    def __init__(self) -> None:
        self.outputs: list[Any] = []
        self.elements = 0
        """Of all tensors that were computed from the outputs."""
        self.drawn = False
        """Whether something was drawn by chances that the outputs give, as an action is."""
        self._held = 0  # elements of the outputs
        self._known: dict[int, Any] = {}
        self._versions: list[int] = []
        self._calls: list[RecordedCall] = []
        self._recipes: dict[int, int] = {}
        self._sources: dict[int, frozenset[int]] = {}
        self._times: dict[int, float] = {}  # of what was joined, and of what was computed of it
        self._growth = Growth()
        self._picks = Picks()
        self._evaluates = False
        self._joined = set[int]()  # recipes of what training joins, as the views of a sample

    @property
    def is_recording(self) -> bool:
        return bool(self.outputs)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    @property
    def is_full(self) -> bool:
        """Whether its outputs are too large to be kept beside those of other passes."""
        return self._held > _MOST_ELEMENTS

    def begin(self, outputs: Iterable[Any], *, training: bool = True) -> None:
        """Record what is done with these, and with those of earlier passes."""
        self._evaluates = not training
        for each in outputs:
            if (each.requires_grad or not training) and each.dim() and id(each) not in self._known:
                place = len(self.outputs)
                self.outputs.append(each)
                self._held += each.numel()
                self._versions.append(_version(each))
                self._known[id(each)] = each
                self._recipes[id(each)] = hash(("output", place))
                self._sources[id(each)] = frozenset({place})

    def clear(self) -> None:
        """Forget everything, and record no more."""
        self.outputs, self._known, self._versions, self._calls = [], {}, [], []
        self._recipes, self._sources = {}, {}
        self._growth.clear()
        self._picks.clear()
        self._times.clear()
        self.elements = self._held = 0

    def before(self, function: Any, args: Any, kwargs: Any) -> RecordedCall | None:
        """A function is going to be called; None if it is not given anything that is known."""
        tensors = list(tensors_of((args, kwargs)))
        given = frozenset(id(each) for each in tensors) & self._known.keys()
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
        constants = [(each, _version(each)) for each in tensors_of((args, kwargs))]
        constants = [each for each in constants if id(each[0]) not in self._known]
        precision = _precision(self.outputs[0].device.type)
        return RecordedCall(function, args, kwargs, given, constants, precision)

    def after(self, call: RecordedCall, target: Any, found: Any) -> None:
        """It gave ``found``; ``target`` is its first argument, which it may have changed."""
        name = getattr(call.function, "__name__", "")
        results = [target] if _is_in_place(name) else list(tensors_of((found,)))
        if not results:
            return
        self._known.update((id(each), each) for each in results)
        self.elements += sum(each.numel() for each in results)
        keys = tuple(id(each) for each in results)
        self._describe(call, dict(zip(keys, results, strict=True)))
        if len(results) == 1 and results[0].numel() == 1:
            self._growth.called(name, call.args, call.kwargs, results[0], len(self.outputs[0]))
        self._calls.append(replace(call, found=keys))
        if len(self._calls) > _MOST_CALLS or self.elements > _MOST_ELEMENTS:
            self.clear()

    def _describe(self, call: RecordedCall, found: Mapping[int, Any]) -> None:
        name = getattr(call.function, "__name__", "")
        given = [self._recipes.get(id(each), 0) for each in tensors_of((call.args, call.kwargs))]
        made = hash((name, *sorted(call.kwargs), *given))
        if (same := self._as_before(name, call, made)) is not None:
            self._recipes.update((key, self._recipes[id(same)]) for key in found)
            self._sources.update((key, self.sources(same)) for key in found)
            self._picks.same(same, found)
            parts = found.values() if name in _JOINS else ()
            longer = [each.numel() / max(1, same.numel()) for each in parts] or [1.0]
            self._times.update((key, longer[0] * self.times(same)) for key in found)
            return
        self._picks.called(name, call.args, call.kwargs, call.given, found)
        sources = frozenset[int]().union(*(self._sources.get(key, ()) for key in call.given))
        self._recipes.update((key, hash((made, at))) for at, key in enumerate(found))
        self._sources.update((key, sources) for key in found)
        times = max(self._times.get(key, 1.0) for key in call.given)
        self._times.update((key, times) for key in found)

    def _as_before(self, name: str, call: RecordedCall, made: int) -> Any:
        """The tensor whose numbers a call gives in another form, or beside those of others like it,
        as of all batches of an evaluation; ``made`` is what the call is known by otherwise."""
        first = call.args[0] if call.args else None
        if name in FORMS and id(first) in self._recipes:
            return first
        if name not in _JOINS or len(call.args) != 1 or call.kwargs:
            return None
        parts = list(tensors_of(first))
        known = [each for each in parts if id(each) in self._recipes]
        if {each.shape[1:] for each in parts} != {known[0].shape[1:]}:
            return None
        if len({self._recipes[id(each)] for each in known}) == 1:
            return known[0]
        if not self._evaluates:
            self._joined.add(made)
        several = self._evaluates and made not in self._joined and len(known) == len(parts)
        of_outputs = several and {self._recipes[id(each)] for each in parts} <= self._own
        return known[0] if of_outputs else None

    def is_output(self, tensor: Any) -> bool:
        """Whether it has the numbers of an output."""
        return self.recipe(tensor) in self._own

    @property
    def _own(self) -> set[int | None]:
        return {self._recipes[id(each)] for each in self.outputs}

    def leads_to(self, loss: Any) -> bool:
        return id(loss) in self._known

    def recipe(self, tensor: Any) -> int | None:
        """Says by which calls it was computed from which outputs, whatever their values and the
        number of samples; None of what does not depend on them."""
        return self._recipes.get(id(tensor))

    def sources(self, tensor: Any) -> frozenset[int]:
        """The places of the outputs that it was computed from."""
        return self._sources.get(id(tensor), frozenset())

    def times(self, tensor: Any) -> float:
        """How many times as many samples it was computed of as an output has: as many as outputs
        of several passes were joined."""
        return self._times.get(id(tensor), 1.0)

    def picked(self, tensor: Any) -> Picked | None:
        """What it was picked from by an index, or computed of what was; None if it was not."""
        return self._picks.of(tensor)

    def parts_of(self, loss: Any) -> Iterator[tuple[int, Any, bool | None]]:
        """The recipe of the loss, and those of the numbers that it is a multiple of; how many times
        each, None of the loss itself; and whether it grows with the number of samples, as a sum;
        None where that is not known.

        A tensor that does not depend on the outputs, as a penalty, may have been added on the way.
        A constant is a part of the loss.
        """
        wanted, whole, scale = id(loss), loss, 1.0
        for call in reversed(self._calls):
            if wanted not in call.found:
                continue
            name, found = getattr(call.function, "__name__", ""), self._known[wanted]
            if found.numel() == 1:
                times = None if found is loss else (scale * whole / found).detach()
                yield self._recipes[wanted], times, self._growth.of(found)
            penalised = name in _SUMS and any(each.dim() == 0 for each, _ in call.versions)
            if not (penalised or name in _MULTIPLES) or len(call.given) != 1:
                return
            (wanted,) = call.given
            if penalised:
                whole, scale = self._known[wanted], scale * whole / found

    def replay(self, loss: Any, changed: Callable[[Any], Any], of: Sequence[Any]) -> Any:
        """The loss, as a number on its device, with some outputs ``changed``.

        Raises CannotReplay, and what the functions raise.
        """
        values: dict[int, Any] = {}
        with torch.no_grad():
            for each, version in zip(self.outputs, self._versions, strict=True):
                if _version(each) != version:
                    raise CannotReplay
                own = each.detach()
                values[id(each)] = changed(own) if any(each is one for one in of) else own.clone()
            for call in self._needed(loss):
                if any(_version(each) != version for each, version in call.versions):
                    raise CannotReplay
                args, kwargs = _swapped(call.args, values), _swapped(call.kwargs, values)
                with _as_then(call, loss.device.type):
                    found = call.function(*args, **kwargs)
                in_place = _is_in_place(getattr(call.function, "__name__", ""))
                results = [args[0]] if in_place else tensors_of((found,))
                values.update(zip(call.found, results, strict=True))
            return values[id(loss)].detach().mean()

    def _needed(self, loss: Any) -> list[RecordedCall]:
        needed, calls = {id(loss)}, []
        for call in reversed(self._calls):
            if not needed.isdisjoint(call.found):
                needed |= call.given
                calls.append(call)
        return calls[::-1]


def _version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


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


def tensors_of(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Copied):
        yield value.tensor
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_of(each)
    elif isinstance(value, dict):
        yield from tensors_of([*value.values()])


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
