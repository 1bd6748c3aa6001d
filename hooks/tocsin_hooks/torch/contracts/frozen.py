"""Weights that are not trained and were never trained."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from tocsin_hooks.drawn import ENOUGH, MOST, MOST_OF_MODEL, is_normal, is_uniform
from tocsin_hooks.torch.reductions.plain import plain


def is_frozen_at_random(root: nn.Module) -> bool:
    """Return whether most parameters of a trained model are frozen at their random initial values.

    PyTorch draws weights of dense and convolutional layers between -1/sqrt(n) and 1/sqrt(n), with n
    inputs (He et al., ICCV 2015, with a = sqrt(5)), Hugging Face's models theirs from a normal
    distribution of ``initializer_range``.
    """
    known = [*root.parameters()]
    frozen = [each for each in known if not each.requires_grad and each.dim() > 1]
    trains = any(each.requires_grad for each in known)
    if not (trains and frozen) or _size(frozen) < MOST_OF_MODEL * _size(known):
        return False
    deviation = getattr(getattr(root, "config", None), "initializer_range", None)
    drawn = [each for each in frozen if _is_as_drawn(each, deviation)]
    return _size(drawn) >= MOST_OF_MODEL * _size(frozen)


def _size(parameters: list[Any]) -> int:
    return sum(each.numel() for each in parameters)


def _is_as_drawn(parameter: Any, deviation: Any) -> bool:
    if parameter.numel() < ENOUGH or not parameter.is_floating_point():
        return False
    try:
        here = plain(parameter)
    except TypeError:  # as of weights that are quantised: these were loaded
        return False
    if here is None or here.shape != parameter.shape:
        return False
    some = here.flatten()[:: -(-here.numel() // MOST)].float().cpu().numpy()
    if is_uniform(some, 1 / math.sqrt(here[0].numel())):
        return True
    return isinstance(deviation, float) and is_normal(some, deviation)
