"""The plan of one tensor's capture: from its role, the rules and the configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tocsin.contracts import Contract
from tocsin.model import Detail, Role, Shard
from tocsin.tensors import place

SCALARS = frozenset({"losses", "metrics", "sm_metrics"})
"""Collections whose tensors are kept as they are and never reduced."""

_MOST_WANTED = 1 << 20  # bytes of a tensor that is kept whole because a rule wants its values


@dataclass(frozen=True)
class Saved:
    """A tensor as a script names it; ``shard`` if it is this worker's part of a larger one,
    ``contract`` if it reports one that only the script knows."""

    name: str
    collections: tuple[str, ...]
    role: Role | None = None
    kind: str | None = None
    shard: Shard | None = None
    contract: Contract | None = None

    @cached_property
    def place(self) -> tuple[Role | None, str | None]:
        """Role and kind, as given, by the collections, or by the name."""
        return place(self.name, self.collections, self.role, self.kind)

    def belongs_to(self, collection: str) -> bool:
        return collection == "all" or collection in self.collections


@dataclass(frozen=True)
class Wish:
    """All that rules want of a tensor beyond the plain numbers of its summary.

    ``details`` and the ``update`` since its last save, a ``fingerprint`` of its content, and
    whether its ``values`` themselves are wanted.
    """

    details: tuple[Detail, ...] = ()
    update: bool = False
    values: bool = False
    fingerprint: bool = False

    def with_quantiles(self, quantiles: tuple[float, ...]) -> Wish:
        """Add quantiles to those of the details, which one summary holds together."""
        if not quantiles:
            return self
        every = {*quantiles, *(q for each in self.details for q in each.quantiles)}
        others = tuple(
            replace(each, quantiles=()) for each in self.details if each != Detail(each.quantiles)
        )
        return replace(self, details=(Detail(tuple(sorted(every))), *others))


@dataclass(frozen=True)
class CapturePlan:
    """The plan of a tensor's capture.

    ``raw`` says whether its values go into the run; None leaves that to the rules. ``reductions``
    (named as smdebug names them) become tensors of their own, and ``shape`` lists its shape where
    smdebug looks for it.
    """

    saved: Saved
    wish: Wish = Wish()
    raw: bool | None = None
    reductions: tuple[str, ...] = ()
    shape: bool = False

    def keeps(self, size: int, nbytes: int) -> bool:
        """Return whether the values of a tensor of ``size`` elements are kept."""
        if size == 1 or not SCALARS.isdisjoint(self.saved.collections):
            return True
        return self.wish.values and nbytes <= _MOST_WANTED if self.raw is None else self.raw
