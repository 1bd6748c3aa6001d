"""Folders of a checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "local"
REPORTS = ROOT / ".cache" / "reports"
