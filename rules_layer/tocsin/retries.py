"""Retries of AWS calls."""

from __future__ import annotations

from typing import Any

RETRIES: dict[str, Any] = {"mode": "standard", "total_max_attempts": 5}
"""For all clients of Tocsin: standard retries throttling and passing faults, with back-off."""
