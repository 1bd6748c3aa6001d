"""A tensor reduced to the numbers that most rules need."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.model import TensorSummary
from tocsin.tensors._arrays import content_bytes
from tocsin.tensors._dtypes import is_text

_Floats = NDArray[np.float64]


def summarize(value: NDArray[Any], previous: NDArray[Any] | None = None) -> TensorSummary:
    """Every field of a summary, accumulated in float64 over the finite elements.

    Complex numbers count by their magnitude; of strings only the size is known. ``previous`` is
    the value at the tensor's last save: the update is left out when its shape differs. A result
    that is not finite is None; so are ``min``, ``max`` and the means where nothing is finite.
    """
    if is_text(value.dtype):
        return TensorSummary(size=value.size)
    with np.errstate(all="ignore"):
        real = _real(value)
        finite = real[np.isfinite(real)]
        infinite = np.isinf(real)
        update_l1, update_l2 = _update(value, previous)
        some = finite.size > 0
        magnitude = np.abs(finite)
        return TensorSummary(
            size=value.size,
            nan=int(np.isnan(real).sum()),
            posinf=int((infinite & (real > 0)).sum()),
            neginf=int((infinite & (real < 0)).sum()),
            zeros=int((finite == 0).sum()),
            min=_finite(finite.min()) if some else None,
            max=_finite(finite.max()) if some else None,
            mean=_finite(finite.mean()) if some else None,
            abs_mean=_finite(magnitude.mean()) if some else None,
            variance=_finite(finite.var()) if some else None,
            l1=_finite(magnitude.sum()),
            l2=_l2(magnitude),
            update_l1=update_l1,
            update_l2=update_l2,
            fingerprint=hashlib.blake2b(content_bytes(value), digest_size=16).hexdigest(),
        )


def _real(value: NDArray[Any]) -> _Floats:
    flat = value.reshape(-1)
    if flat.dtype.kind == "c":
        flat = np.abs(flat.astype(np.complex128, copy=False))
    return flat.astype(np.float64, copy=False)


def _update(
    value: NDArray[Any], previous: NDArray[Any] | None
) -> tuple[float | None, float | None]:
    if previous is None or previous.shape != value.shape or is_text(previous.dtype):
        return None, None
    wide = np.complex128 if "c" in value.dtype.kind + previous.dtype.kind else np.float64
    difference = np.abs(value.reshape(-1).astype(wide) - previous.reshape(-1).astype(wide))
    difference = difference[np.isfinite(difference)]
    return _finite(difference.sum()), _l2(difference)


def _l2(magnitude: _Floats) -> float | None:
    """The norm, scaled so that squares neither overflow nor vanish."""
    largest = float(magnitude.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    scaled = magnitude / largest
    return _finite(largest * math.sqrt(float(np.dot(scaled, scaled))))


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
