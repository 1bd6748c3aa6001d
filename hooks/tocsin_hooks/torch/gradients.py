"""The parameters of an optimizer, and gradients as an update left them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import ref

from tocsin_hooks.torch.autograd import version_of


def parameters_of(optimizer: Any) -> Iterator[Any]:
    return (each for group in optimizer.param_groups for each in group["params"])


class LeftGradient:
    """A gradient as it was at one time. A pass that adds to it changes its version."""

    def __init__(self, parameter: Any) -> None:
        self._parameter, self._gradient = ref(parameter), ref(parameter.grad)
        self._version = version_of(parameter.grad)

    def is_same(self, gradient: Any) -> bool:
        """Return whether this is the gradient, and it has not changed."""
        same = gradient is not None and gradient is self._gradient()
        return same and version_of(gradient) == self._version

    @property
    def stays(self) -> bool:
        """Return whether the gradient was neither removed nor changed."""
        parameter = self._parameter()
        return parameter is not None and self.is_same(parameter.grad)
