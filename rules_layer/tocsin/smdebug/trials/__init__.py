"""Runs, opened for reading."""

from __future__ import annotations

from tocsin.smdebug.absent import absent
from tocsin.trial import Trial, create_trial

__all__ = ["LocalTrial", "S3Trial", "Trial", "create_trial"]

_INSTEAD = "create_trial(path) opens a folder and a bucket alike"
LocalTrial = absent("LocalTrial", _INSTEAD)
S3Trial = absent("S3Trial", _INSTEAD)
