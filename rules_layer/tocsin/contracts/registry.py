"""All contracts, by family and by id."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tocsin.contracts.contract import Contract
from tocsin.contracts.data import DATA
from tocsin.contracts.interaction import INTERACTION
from tocsin.contracts.losses import LOSSES
from tocsin.contracts.modes import MODES
from tocsin.contracts.trees import TREES
from tocsin.contracts.updates import UPDATES

FAMILIES: Mapping[str, tuple[Contract, ...]] = MappingProxyType(
    {
        "Losses": LOSSES,
        "Inputs, labels and axes": DATA,
        "Actions, target networks and opponents": INTERACTION,
        "Gradients, optimizers and schedulers": UPDATES,
        "Train and eval mode": MODES,
        "Boosted trees": TREES,
    }
)

CONTRACTS: Mapping[str, Contract] = MappingProxyType(
    {each.id: each for family in FAMILIES.values() for each in family}
)
"""Of equally severe contracts a rule reports the first one first."""
