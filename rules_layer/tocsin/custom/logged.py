"""Log records of a rule while it judges a step, shown with its verdict."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Lines(logging.Handler):
    """Keeps the messages, without levels and times."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(record.getMessage())
        except Exception:  # noqa: BLE001  # a wrong format string is no reason to fail
            self._lines.append(str(record.msg))


@contextmanager
def logged(logger: logging.Logger) -> Iterator[list[str]]:
    """Inside, messages from level INFO on are added to the list; they are logged as well."""
    lines: list[str] = []
    handler, level = _Lines(lines), logger.level
    logger.addHandler(handler)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
