"""Updates that are rounded away, because 16-bit weights cannot represent them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from tocsin_hooks.torch.contracts.remembered import Remembered
from tocsin_hooks.torch.gradients import parameters_of

_PLAIN = frozenset(
    each.__module__
    for each in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.SGD)
)
_SHORT = (torch.bfloat16, torch.float16)


def rounds_to_zero(optimizers: Iterable[Any], remembered: Remembered) -> bool:
    """Return whether updates leave most elements of 16-bit weights as they were at first. Those of
    other optimizers than PyTorch's may add up, or be rounded at random."""
    known = [each for each in optimizers if type(each).__module__ in _PLAIN]
    held = [each for optimizer in known for each in parameters_of(optimizer)]
    short = [each for each in held if each.dtype in _SHORT and each.requires_grad]
    lost = [each.numel() for each in short if remembered.is_mostly_kept(each)]
    return bool(2 * sum(lost) > sum(each.numel() for each in short))
