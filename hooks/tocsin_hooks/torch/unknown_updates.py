"""A model that no optimizer seems to update."""

from __future__ import annotations

import logging
from typing import Any

from tocsin_hooks.torch.capture.parameters import Parameters, has_gradients
from tocsin_hooks.torch.names import class_name
from tocsin_hooks.torch.steps import StepDetector

_log = logging.getLogger("tocsin")
_ENOUGH = 8
"""After so many steps a loop is taken to update the model by itself. Before that an optimizer may
just have been skipped: with loss scaling the first gradients often overflow."""


class UnknownUpdates:
    """Knows whether the loop updates the model by itself, and counts updates of something else."""

    def __init__(self, parameters: Parameters, steps: StepDetector) -> None:
        self._parameters = parameters
        self._steps = steps
        self._elsewhere = 0

    @property
    def are_by_the_loop(self) -> bool:
        return self._parameters.updated_by_nobody and self._steps.begun > _ENOUGH

    def updated_elsewhere(self, root: Any, optimizer: Any) -> bool:
        """An optimizer has updated something else. Whether its steps count, for no other is seen:
        then the log says once that it does not hold the model."""
        if not self._parameters.updated_by_nobody:
            return False
        self._elsewhere += has_gradients(root)
        if self._elsewhere == _ENOUGH:
            self._elsewhere += 1
            _log.warning(
                "no optimizer has updated the %s so far: the %s holds other parameters. Create the "
                "optimizer after the model, its copies and its new layers",
                class_name(root),
                type(optimizer).__name__,
            )
        return True
