"""The list of contract classes. ``Checks`` makes the others, of which it asks more."""

from __future__ import annotations

from tocsin_hooks.torch.contracts.across import Broadcasts
from tocsin_hooks.torch.contracts.axes import Axes
from tocsin_hooks.torch.contracts.batch_axis import BatchAxis
from tocsin_hooks.torch.contracts.constant_labels import ConstantLabels
from tocsin_hooks.torch.contracts.derivatives import Derivatives
from tocsin_hooks.torch.contracts.discarded_gradients import DiscardedGradients
from tocsin_hooks.torch.contracts.graphs import LossGraphs
from tocsin_hooks.torch.contracts.inputs import InputContracts
from tocsin_hooks.torch.contracts.losses import LossContracts
from tocsin_hooks.torch.contracts.modes import Dropouts, ModeContracts, RunningStatistics
from tocsin_hooks.torch.contracts.schedules import Schedules
from tocsin_hooks.torch.contracts.token_probe import TokenProbe
from tocsin_hooks.torch.contracts.undefined import UndefinedValues

CONTRACTS = (
    TokenProbe,
    BatchAxis,
    LossContracts,
    InputContracts,
    ConstantLabels,
    Dropouts,
    Broadcasts,
    Axes,
    Derivatives,
    UndefinedValues,
    LossGraphs,
    ModeContracts,
    RunningStatistics,
    Schedules,
    DiscardedGradients,
)
"""The classes whose objects only take events, in the order in which they get them."""
