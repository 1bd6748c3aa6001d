"""The section ``relaunch`` of a watch file: its faults, and what events carry of it."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.events import RelaunchPolicy
from tocsin.parsing import change_fault
from tocsin.watch.config import Relaunch
from tocsin.watch.errors import Fault


def relaunch_policy(relaunch: Relaunch) -> RelaunchPolicy | None:
    """Return the section as an event carries it; None if a change of it cannot be used."""
    if any(relaunch_faults(relaunch)):
        return None
    changes = {name: str(change) for name, change in relaunch.hyperparameters.items()}
    return RelaunchPolicy(relaunch.attempts, changes)


def relaunch_faults(relaunch: Relaunch) -> Iterator[Fault]:
    """Yield a fault for each change that is neither a factor nor a number, or that SageMaker
    reads."""
    for name, change in relaunch.hyperparameters.items():
        if fault := change_fault(name, str(change)):
            yield Fault(("relaunch", "hyperparameters", name), fault)
