"""Named saves that find no saved step: they are kept for the next one, whatever the interval."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.tensors import Captured

from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.step import CapturedStep

_MOST_NAMES = 1 << 16  # there may be new ones in every step


class NamedSaves:
    """Stores the names that a script saves, and tensors saved between steps.

    A script that saves a name in each step means the interval to hold for it. Any other save is
    ``urgent``: the step that gets it is saved, if only for that.
    """

    def __init__(self) -> None:
        self.is_urgent = False
        self._kept: dict[str, tuple[CapturePlan, list[Captured]]] = {}
        self._saved_at: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def is_regular(self, name: str, steps: int) -> bool:
        """Return whether the script also saved the name in the step before, of ``steps`` so far."""
        return self._saved_at.get(name) == steps - 1

    def saved(self, name: str, steps: int) -> None:
        """Record that the script saves a name, and how many steps have begun."""
        if len(self._saved_at) >= _MOST_NAMES:
            self._saved_at.clear()
        self._saved_at[name] = steps

    def keep(self, plan: CapturePlan, captured: Iterable[Captured], *, urgent: bool) -> None:
        """Keep a tensor until a step takes it; a later one of its name replaces it."""
        self._kept[plan.saved.name] = plan, list(captured)
        self.is_urgent |= urgent

    def move_to(self, step: CapturedStep) -> None:
        """Add kept tensors to a step before it is written, without replacing its own."""
        for name, (plan, captured) in self._kept.items():
            if name not in step.saved:
                for each in captured:
                    step.add(plan, each)
        self._kept.clear()
        self.is_urgent = False
