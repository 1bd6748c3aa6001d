"""GPUMemoryNearLimit: a GPU's memory is nearly full, and three quarters full."""

from tocsin_hooks.machine import Minute, write_minutes


def fires(run: str) -> None:
    write_minutes(run, [Minute(series={"gpu0/MemoryUsedPercent": [97.0]})])


def stays_quiet(run: str) -> None:
    write_minutes(run, [Minute(series={"gpu0/MemoryUsedPercent": [75.0]})])
