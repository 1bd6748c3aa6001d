"""The tensors that a rule needs at a step."""

from __future__ import annotations

from tocsin.smdebug.rules import RequiredTensors, RequiredTensorsForTrial

__all__ = ["RequiredTensors", "RequiredTensorsForTrial"]
