"""Names and numbers that several constructs, or users, rely on."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

STACK = "Tocsin"
BUS = "tocsin"
PYTHON = "3.13"
CUSTOM_RULES = "tocsin_custom_rules"

# A message is tried five times. Its visibility timeout is six times the function's, as AWS advises.
TRIES = 5
VISIBILITY_FACTOR = 6
