"""Small runs, and a clock, as for trials."""

from tests.unit.trial.conftest import run, time

__all__ = ["run", "time"]
