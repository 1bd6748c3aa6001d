"""The end of a training."""

from __future__ import annotations

from tocsin.smdebug.core.access_layer.utils import has_training_ended

__all__ = ["has_training_ended"]
