"""Looks for the label among the columns of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_COLUMNS = 1024
"""A table of more is not looked at."""

MOST_SAMPLES = 1024
"""The samples that are looked at, the first of a batch."""

_LEAST_SAMPLES = 16
_LEAST_COLUMNS = 3  # of fewer one may well determine the label
_ONE = 1 - 1e-6  # a squared correlation, but for rounding
_DECIDES = 0.3  # of the variance, by a single sample: such labels resemble many a column


def column_of(labels: NDArray[Any], inputs: NDArray[Any]) -> int | None:
    """Return the column of the inputs of a batch that is its labels, one for each sample, or a
    multiple of it plus a constant: their correlation is 1 or −1.

    ``labels``: shape (N) or (N, 1); ``inputs``: (N, columns). Of other shapes there is none.
    """
    if inputs.ndim != 2 or labels.shape not in ((len(inputs),), (len(inputs), 1)):
        return None
    if len(inputs) < _LEAST_SAMPLES or not _LEAST_COLUMNS <= inputs.shape[1] <= MOST_COLUMNS:
        return None
    away = _centred(labels.reshape(-1, 1)[:MOST_SAMPLES])
    columns = _centred(inputs[:MOST_SAMPLES])
    squares, sizes = float((away**2).sum()), (columns**2).sum(0)
    if not np.isfinite(squares) or (away**2).max() >= _DECIDES * squares:
        return None
    varied = np.flatnonzero(np.isfinite(sizes) & (sizes > 0))
    products = (columns[:, varied] * away).sum(0)
    found = varied[products**2 > _ONE * squares * sizes[varied]]
    return int(found[0]) if len(found) else None


def _centred(numbers: NDArray[Any]) -> NDArray[np.float64]:
    wide = numbers.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(wide - wide.mean(0))
