"""GPUNotUsed: one of two GPUs is idle, and both are used."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(second: float) -> Minute:
    return Minute(
        series={"gpu0/GPUUtilization": [90.0] * 120, "gpu1/GPUUtilization": [second] * 120}
    )


def fires(run: str) -> None:
    write_minutes(run, [minute(0.0)] * 12)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(85.0)] * 12)
