"""Times as a watch file has them: ``30s``, ``5m``, ``4h``, ``2d``."""

from __future__ import annotations

import re

_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(value: object) -> float | None:
    """How long it is; None for what is no time.

    >>> seconds("1.5m"), seconds("soon")
    (90.0, None)
    """
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) * _SECONDS[found[2]] if found else None
