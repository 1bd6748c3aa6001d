"""The hook for Keras 3: a callback for fit, evaluate and predict, with any of its backends."""

from __future__ import annotations

from tocsin_hooks.keras.callback import TocsinCallback

__all__ = ["TocsinCallback"]
