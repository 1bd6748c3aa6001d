"""The calls that computed tensors from the outputs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tocsin_hooks.torch.calls.indexed_outputs import IndexedOutputs, Picked
from tocsin_hooks.torch.calls.recorded_call import RecordedCall, tensors_of

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
_LIMITS = frozenset({"clamp", "clip"})
_JOINS = frozenset({"cat", "concat", "concatenate"})


class Recipes:
    """Knows tensors by identity: of each the calls that lead to it from the outputs, whatever their
    values and the number of samples, and what was picked from an output on the way."""

    def __init__(self) -> None:
        self._made: dict[int, int] = {}
        self._sources: dict[int, frozenset[int]] = {}
        self._times: dict[int, float] = {}  # of what was joined, and of what was computed of it
        self._outputs = set[int]()  # what they are made by
        self._alone = set[int]()  # of nothing but outputs
        self._limited = set[int]()  # outputs, to a range
        self._picks = IndexedOutputs()
        self._evaluates = False
        self._joined = set[int]()  # what training joins is made by, as the views of a sample

    def begin(self, *, training: bool) -> None:
        self._evaluates = not training

    def add_output(self, key: int, place: int) -> None:
        made = hash(("output", place))
        self._outputs.add(made)
        self._alone.add(key)
        self._made[key], self._sources[key] = made, frozenset({place})

    def clear(self) -> None:
        self._made, self._sources, self._times, self._outputs = {}, {}, {}, set()
        self._alone.clear()
        self._limited.clear()
        self._picks.clear()

    def called(self, call: RecordedCall, found: Mapping[int, Any]) -> None:
        """Record a call that returned the tensors ``found``, by their keys."""
        name, first = call.name, call.args[0] if call.args else None
        if all(id(each) in self._alone for each in tensors_of((call.args, call.kwargs))):
            self._alone.update(found)
        if name in _LIMITS and self.is_output(first):
            self._limited.update(found)
        given = (self._made.get(id(each), 0) for each in tensors_of((call.args, call.kwargs)))
        made = hash((name, *sorted(call.kwargs), *given))
        same = first if name in FORMS and id(first) in self._made else None
        if name in _JOINS and len(call.args) == 1 and not call.kwargs:
            same = self._like_its_parts(tensors_of(first), made)
        if same is not None:
            self._made.update((key, self._made[id(same)]) for key in found)
            self._sources.update((key, self.sources(same)) for key in found)
            self._picks.same(same, found)
            longer = [each.numel() / max(1, same.numel()) for each in found.values()]
            times = self.times(same) * (longer[0] if name in _JOINS else 1.0)
            self._times.update((key, times) for key in found)
            return
        self._picks.called(call, found)
        sources = frozenset[int]().union(*(self._sources.get(key, ()) for key in call.given))
        self._made.update((key, hash((made, at))) for at, key in enumerate(found))
        self._sources.update((key, sources) for key in found)
        times = max((self._times.get(key, 1.0) for key in call.given), default=1.0)
        self._times.update((key, times) for key in found)

    def of(self, tensor: Any) -> int | None:
        """Return the calls that computed a tensor; None if it does not depend on an output."""
        return self._made.get(id(tensor))

    def sources(self, tensor: Any) -> frozenset[int]:
        """Return the places of the outputs that it was computed from."""
        return self._sources.get(id(tensor), frozenset())

    def is_limited(self, tensor: Any) -> bool:
        """Return whether it has the numbers of an output, limited to a range, as colours are."""
        return id(tensor) in self._limited

    def is_alone(self, tensor: Any) -> bool:
        """Return whether it was computed from outputs only, and from no other tensor."""
        return id(tensor) in self._alone

    def times(self, tensor: Any) -> float:
        """Return how many times as many samples it was computed of as an output has: as many as
        outputs of several passes were joined."""
        return self._times.get(id(tensor), 1.0)

    def picked(self, tensor: Any) -> Picked | None:
        """Return the tensor that it was indexed from, also indirectly; None without one."""
        return self._picks.of(tensor)

    def is_output(self, tensor: Any) -> bool:
        """Return whether it has the numbers of an output."""
        return self._made.get(id(tensor)) in self._outputs

    def _like_its_parts(self, parts: Sequence[Any], made: int) -> Any:
        """One of the tensors that are joined, if the result is as they are: made by the same calls,
        or outputs of all batches of an evaluation."""
        known = [each for each in parts if id(each) in self._made]
        if {each.shape[1:] for each in parts} != {known[0].shape[1:]}:
            return None
        if len({self._made[id(each)] for each in known}) == 1:
            return known[0]
        if not self._evaluates:
            self._joined.add(made)
        several = self._evaluates and made not in self._joined
        return known[0] if several and all(map(self.is_output, parts)) else None
