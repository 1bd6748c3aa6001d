"""The state of a step."""

from __future__ import annotations

from enum import Enum


class StepState(Enum):
    """UNAVAILABLE: not saved, and it will not be. AVAILABLE: all workers are done with it."""

    UNAVAILABLE = 0
    AVAILABLE = 1
    NOT_YET_AVAILABLE = 2
