"""What readers of histories yield, and how they refuse a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

MOST_BYTES = 1 << 30  # of a file: it is read line by line or record by record
_TEXTS = {"nan", "inf", "infinity", "+inf", "+infinity", "-inf", "-infinity"}

Note = Callable[[str], None]
"""Called with a line for people: something could not be read, the rest was."""


class BadHistory(ValueError):
    """A history cannot be read; the message is one line: what, where, how to fix it."""


class Scalar(NamedTuple):
    """One number under its name; ``wall_time`` in seconds since the epoch, None: not known."""

    name: str
    step: int
    value: float
    wall_time: float | None = None


class Reader(Protocol):
    """Reads the history at ``path``, of one kind; each further ``read`` yields what is new.

    The scalars may come in any order; of several with the same name and step the last counts.
    A file that was written again is read from its start. Raises BadHistory and OSError.
    """

    @property
    def path(self) -> Path: ...

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        """growing: what is not whole yet, a line or a record, is left for the next time."""
        ...


def number(value: object) -> float | None:
    """A JSON value or the text of a cell as a number, NaN and infinities too; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    if isinstance(value, str) and not math.isfinite(found):
        return found if value.strip().lower() in _TEXTS else None
    return found


def whole(value: object) -> int | None:
    """A step: a whole number, also written as ``3.0`` or as text; else None."""
    found = number(value)
    return None if found is None or not found.is_integer() else int(found)


def check_size(path: Path) -> None:
    """Raises BadHistory for a file that is not regular or too large to be read."""
    if not path.is_file():
        raise BadHistory(f"{path} is not a file")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise BadHistory(f"{path} has {size:,} bytes, more than the {MOST_BYTES:,} allowed")
