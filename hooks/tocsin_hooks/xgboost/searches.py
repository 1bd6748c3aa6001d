"""Fits by which scikit-learn compares models: those of a search or a cross-validation."""

from __future__ import annotations

import logging
import sys
from functools import cache
from types import FrameType

_log = logging.getLogger("tocsin")
_COMPARES = "sklearn.model_selection._validation"


def is_compared() -> bool:
    """Return whether scikit-learn runs the fit that calls this, on a part of the data, to score it.

    Such fits come by the dozen, each from a copy of one callback and often in several processes at
    once. The refit of a search with its best parameters is not one of them.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == _COMPARES:
            _explain()
            return True
        frame = frame.f_back
    return False


@cache
def _explain() -> None:
    """Log, once in a process, why there is no run of such fits."""
    _log.warning(
        "fits inside a scikit-learn search or cross-validation are not captured, because they "
        "would overwrite each other: only the refit of a search is. To capture another, fit it by "
        "itself"
    )
