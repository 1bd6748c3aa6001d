"""Keys that are pressed while a command draws."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Pressed = Callable[[float], str]
"""Waits so many seconds for a key. Returns it; empty if none was pressed."""


@contextmanager
def pressed_keys() -> Iterator[Pressed]:
    """Keys without Enter in the block, if stdin is a terminal; else there is only the wait."""
    if not sys.stdin.isatty() or os.name != "posix":
        yield _none
        return
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield lambda seconds: _key(terminal, seconds)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _key(terminal: int, seconds: float) -> str:
    ready, _, _ = select.select([terminal], [], [], seconds)
    return os.read(terminal, 1).decode(errors="replace") if ready else ""


def _none(seconds: float) -> str:
    time.sleep(seconds)
    return ""
