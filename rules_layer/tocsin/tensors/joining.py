"""The summary of a tensor from those of its parts, which lie in several processes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence

from tocsin.model import TensorSummary

_Parts = Sequence[TensorSummary]


def joined_summary(parts: _Parts) -> TensorSummary:
    """Return the plain numbers of the whole tensor, without details.

    Norms are joined by their squares. What is unknown of a part is unknown of the whole.
    """
    filled = [part for part in parts if _finite(part) != 0]  # others have no mean and no bounds
    mean = _mean(filled, [part.mean for part in filled])
    return TensorSummary(
        size=_count(part.size for part in parts),
        nan=_count(part.nan for part in parts),
        posinf=_count(part.posinf for part in parts),
        neginf=_count(part.neginf for part in parts),
        zeros=_count(part.zeros for part in parts),
        min=_joined(min, (part.min for part in filled)),
        max=_joined(max, (part.max for part in filled)),
        mean=mean,
        abs_mean=_mean(filled, [part.abs_mean for part in filled]),
        variance=None if mean is None else _mean(filled, _squares(filled, mean)),
        l1=_joined(sum, (part.l1 for part in parts)),
        l2=_joined(_norm, (part.l2 for part in parts)),
        update_l1=_joined(sum, (part.update_l1 for part in parts)),
        update_l2=_joined(_norm, (part.update_l2 for part in parts)),
        fingerprint=_fingerprint([part.fingerprint for part in parts]),
    )


def _finite(part: TensorSummary) -> int | None:
    """The number of finite elements."""
    if part.size is None:
        return None
    return part.size - (part.nan or 0) - (part.posinf or 0) - (part.neginf or 0)


def _count(counts: Iterable[int | None]) -> int | None:
    known = [*counts]
    return None if None in known else sum(count or 0 for count in known)


def _joined(join: Callable[[list[float]], float], numbers: Iterable[float | None]) -> float | None:
    known: list[float] = []
    for number in numbers:
        if number is None:
            return None
        known.append(number)
    found = join(known) if known else None
    return found if found is not None and math.isfinite(found) else None


def _norm(norms: list[float]) -> float:
    return math.hypot(*norms)


def _mean(parts: _Parts, numbers: Sequence[float | None]) -> float | None:
    """The mean over all elements, from one number about the finite elements of each part."""
    sizes = [_finite(part) for part in parts]
    total = _count(sizes)
    if not total:
        return None
    shares = (
        None if size is None or number is None else number * (size / total)
        for size, number in zip(sizes, numbers, strict=True)
    )
    return _joined(sum, shares)


def _squares(parts: _Parts, mean: float) -> list[float | None]:
    """The mean square of each part around the mean of the whole."""
    return [
        None
        if part.variance is None or part.mean is None
        else part.variance + (part.mean - mean) * (part.mean - mean)
        for part in parts
    ]


def _fingerprint(fingerprints: Sequence[str | None]) -> str | None:
    if None in fingerprints:
        return None
    text = "".join(map(str, fingerprints)).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()
