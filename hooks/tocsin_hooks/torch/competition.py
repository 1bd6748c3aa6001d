"""Models that compete, as those of a GAN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin_hooks.guard import Guard
from tocsin_hooks.torch.contracts.agreement import Agreement
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.opponents import Opponents


class Competition:
    """The state of a competition: whether there is one, and whether the opponents pull apart.

    ``known`` is called once there is one.
    """

    def __init__(self, known: Callable[[], None], found: Findings) -> None:
        self._known = known
        self._opponents = Opponents()
        self._agreement = Agreement(found)
        self._trouble = found.step.hook.trouble

    @property
    def is_known(self) -> bool:
        return self._opponents.are_known

    @property
    def looks(self) -> bool:
        """Return whether it is being found out whether they agree."""
        return self._agreement.looks

    def passed(self) -> None:
        """Something was computed, forward or backward."""
        self._opponents.passed()

    def update_begins(self, optimizer: Any, *, held: bool, looks: bool) -> None:
        """An optimizer is about to update the watched model, or if it is not ``held``, another."""
        with Guard(self._trouble, "opponents are not compared"):
            self._agreement.updating(optimizer)
        if held:
            self._opponents.updating()
        elif self._opponents.is_linked(optimizer) or self._opponents.has_passed:
            self.updated(optimizer, looks=looks)  # another model's, by way of this one

    def updated(self, optimizer: Any, *, looks: bool) -> None:
        """``looks``: it is wanted whether the opponents agree."""
        if self._opponents.updated(optimizer):
            self._known()
            if looks:
                self._agreement.begin()

    def close(self) -> None:
        self._agreement.close()
