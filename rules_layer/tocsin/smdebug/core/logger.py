"""The logger of rules."""

from __future__ import annotations

import logging

__all__ = ["get_logger"]


def get_logger(name: str = "rules") -> logging.Logger:
    """Return the logger whose lines are shown with a rule's verdict, whatever the name."""
    return logging.getLogger("tocsin.rules")
