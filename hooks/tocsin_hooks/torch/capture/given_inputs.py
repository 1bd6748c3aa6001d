"""The inputs of a forward pass."""

from __future__ import annotations

from typing import Any

import torch
from tocsin.model import Role

from tocsin_hooks.torch.names import input_name
from tocsin_hooks.torch.values import tensors_in

_MOST = 8


class GivenInputs:
    """The tensors that a model is given in the current pass, but for its labels and those that are
    sparse; ``own`` is what their names begin with."""

    def __init__(self, own: str = "", args: Any = (), kwargs: Any = None) -> None:
        found = tensors_in((args, kwargs or {}), _MOST)
        found = [each for each in found if each[1].layout is torch.strided]
        self._own = own
        self._named = [each for each in found if input_name("", each[0]).role is Role.INPUT]
        self.tensors = [each for _, each in self._named]

    def __bool__(self) -> bool:
        return bool(self.tensors)

    @property
    def samples(self) -> int:
        """Return how many samples the first of them has."""
        return len(self.tensors[0]) if self.tensors[0].dim() else 1

    @property
    def are_one_sample(self) -> bool:
        return bool(self.tensors) and self.samples == 1

    def label_name(self, target: Any) -> str | None:
        """Return the name of an input that is not one, but what a loss compares: a batch may be
        given to the model as it is, with its labels."""
        for key, each in self._named:
            if not key.isdigit() and len(self._named) > 1 and each is target:
                return input_name(self._own, key).name
        return None
