"""The last saved values of tensors whose updates rules want to know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_BYTES = 64 << 20


class Memory:
    """Copies of values, 64 MB at most; of a tensor that has no place no update is known."""

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._left = most
        self._values: dict[str, NDArray[Any]] = {}

    def exchanged(
        self, name: str, value: NDArray[Any], *, again: bool = False
    ) -> NDArray[Any] | None:
        """What was remembered under the name; from now on it is ``value``, as it is now.

        Where a step saves it ``again``, the value of the step before is known no more: None.
        """
        before = self._values.pop(name, None)
        self._left += before.nbytes if before is not None else 0
        if value.nbytes <= self._left and value.dtype.kind in "biufc":
            self._values[name] = np.array(value)
            self._left -= value.nbytes
        return None if again else before
