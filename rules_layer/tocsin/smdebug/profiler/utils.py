"""Units of time."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeUnits"]


class TimeUnits(Enum):
    """The unit of the times that a reader is given."""

    SECONDS = 1
    MILLISECONDS = 2
    MICROSECONDS = 3
    NANOSECONDS = 4

    def seconds(self, time: float) -> float:
        """Return a time of this unit in seconds."""
        scale: int = 1000 ** (self.value - 1)
        return time / scale
