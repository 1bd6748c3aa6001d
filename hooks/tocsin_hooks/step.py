"""One step during its capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from tocsin.model import Mode
from tocsin.tensors import Captured, SavedCheckpoint

from tocsin_hooks.plan import CapturePlan, Saved


@dataclass(frozen=True)
class Later:
    """Tensors whose reductions are still being computed; ``finish`` waits for them."""

    finish: Callable[[], Iterable[tuple[CapturePlan, Captured]]]
    nbytes: int


@dataclass(frozen=True, eq=False)
class CapturedStep:
    """All that is saved of one step.

    members: the tensor names by collection.
    checkpoint: the last one that the training saved before the end of this step.
    """

    step: int
    mode: Mode
    mode_step: int
    tensors: dict[str, Captured] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    saved: dict[str, Saved] = field(default_factory=dict)
    later: list[Later] = field(default_factory=list)
    checkpoint: SavedCheckpoint | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the host's memory that it holds, apart from summaries."""
        values = (t.value for t in self.tensors.values() if t.value is not None)
        return sum(np.asarray(v).nbytes for v in values) + sum(each.nbytes for each in self.later)

    @property
    def empty(self) -> bool:
        return not (self.tensors or self.later)

    def add(self, plan: CapturePlan, captured: Captured) -> None:
        """Add a tensor, or a reduction of one; a second one of a name replaces it."""
        self.tensors[captured.name] = captured
        self.saved.setdefault(plan.saved.name, plan.saved)
        for collection in plan.saved.collections:
            self.members.setdefault(collection, set()).add(plan.saved.name)

    def settle(self) -> None:
        """Wait for pending reductions of a device. Raises their errors."""
        while self.later:
            for plan, captured in self.later.pop(0).finish():
                self.add(plan, captured)
