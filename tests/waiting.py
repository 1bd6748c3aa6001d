"""The time limit for waiting in tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

PATIENCE = 300.0
"""Seconds. Only a test that fails waits so long: a machine may be slow, or busy with other work."""


def becomes(true: Callable[[], bool]) -> bool:
    """Whether it is true by and by."""
    deadline = time.monotonic() + PATIENCE
    while not (result := true()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return result


def patiently() -> Iterator[None]:
    """Another try, and another, until the patience is at its end."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
