"""Rules of a script's own."""

from __future__ import annotations

from tocsin.custom.invoke import invoke_rule
from tocsin.custom.required import RequiredTensors, RequiredTensorsForTrial
from tocsin.custom.rule import Rule

__all__ = ["RequiredTensors", "RequiredTensorsForTrial", "Rule", "invoke_rule"]
