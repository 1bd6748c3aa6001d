"""Collections of a hook for Keras."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tocsin.smdebug.core.collection import Collection as BaseCollection

__all__ = ["Collection"]


class Collection(BaseCollection):
    """A collection that takes layers and tensors of Keras, too."""

    def add(self, arg: Any) -> None:
        """Add a tensor or a variable, or several, by their names."""
        for each in arg if isinstance(arg, Iterable) and not hasattr(arg, "name") else [arg]:
            self.add_tensor_name(str(each.name))

    def add_for_mode(self, arg: Any, mode: Any = None) -> None:
        """Add a tensor or a variable, or several; in all modes."""
        self.add(arg)

    def add_keras_layer(self, layer: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add what goes into a layer, and what comes out of it."""
        self.add_module_tensors(layer, inputs, outputs)
