"""Contracts of a training loop: modes, gradients, updates and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin_hooks.guard import Report
from tocsin_hooks.torch.contracts.discarded_gradients import DiscardedGradients
from tocsin_hooks.torch.contracts.modes import ModeContracts
from tocsin_hooks.torch.contracts.schedules import Schedules
from tocsin_hooks.torch.contracts.updates import Broken, UpdateContracts


class LoopContracts:
    """Checks what a loop does with a model, whatever it is trained on.

    ``broken`` gets the name of a contract, in the call that breaks it, or with another line.
    """

    def __init__(self, broken: Broken, trouble: Report) -> None:
        self.updates = UpdateContracts(broken)
        self.modes = ModeContracts(broken)
        self.schedules = Schedules(broken)
        self._discarded = DiscardedGradients(broken, trouble)

    @property
    def over(self) -> bool:
        """Return whether enough updates were seen."""
        return self.updates.over

    def forward_begins(self, root: Any, *, trains: bool, alone: bool, judged: bool) -> None:
        self.modes.forward(root, alone=alone, judged=judged)
        if trains and not alone:
            self._discarded.forward_begins(root)

    def update_begins(
        self, root: Any, optimizer: Any, *, held: bool, seen: bool, closure: bool
    ) -> None:
        """An optimizer is about to update the model, or if it is not ``held``, something else."""
        self._discarded.end()
        if not held:
            self.updates.foreign_update(root, optimizer)
            return
        self.updates.before_update(root, optimizer, seen=seen, closure=closure)
        groups = optimizer.param_groups
        has_gradients = any(each.grad is not None for one in groups for each in one["params"])
        self.modes.before_update(root, optimizer, has_gradients=has_gradients)

    def update_ends(self, root: Any, optimizer: Any) -> None:
        self.updates.after_update(root, optimizer)
        self.modes.after_update()
        self.schedules.updated(optimizer)

    def skipped(self, updates: Mapping[Any, int]) -> None:
        """There were so many updates by each optimizer that nothing looked at."""
        for optimizer, number in updates.items():
            self.updates.skipped(optimizer, number)
            self.modes.skipped(number)
            self.schedules.skipped(optimizer, number)

    def training_ends(self, root: Any, *, saving: bool) -> None:
        """No step comes after the one in hand, of which ``saving`` says whether it is saved. The
        model may be gone."""
        self.modes.training_ends()
        if saving:
            self.schedules.ended()
            if root is not None:
                self.updates.ended(root)
                self._discarded.training_ends(root)
        self._discarded.end()
