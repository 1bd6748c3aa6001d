"""The log of the hooks; in a script that configures none, its warnings go to stderr."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

logger = logging.getLogger("tocsin")


class _Fallback(logging.Handler):
    """Writes to stderr, with Tocsin's prefix, if the log has no other handler."""

    def emit(self, record: logging.LogRecord) -> None:
        if not _is_handled():
            _write(record.getMessage())


_fallback = _Fallback(logging.WARNING)
logger.addHandler(_fallback)


def say(message: str) -> None:
    """Write a line that is not a warning: to the log, or to stderr where none is configured."""
    if _is_handled():
        logger.info("%s", message)
    else:
        _write(message)


def _is_handled() -> bool:
    root = logging.getLogger().handlers if logger.propagate else []
    return any(handler is not _fallback for handler in (*logger.handlers, *root))


def _write(message: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # the reader may have closed it
        sys.stderr.write(f"tocsin: {message}\n")
        sys.stderr.flush()
