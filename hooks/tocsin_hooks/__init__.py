"""Runs inside a training job: captures tensors, writes runs, obeys a stop request."""

from __future__ import annotations

from tocsin.model import Mode

from tocsin_hooks.hook import Hook, Stats
from tocsin_hooks.stop import TrainingStopped

modes = Mode

__all__ = ["Hook", "Stats", "TrainingStopped", "modes"]
