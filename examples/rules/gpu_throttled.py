"""GPUThrottled: a GPU that is too hot, and one that is not."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(slowed: int) -> Minute:
    return Minute(
        series={
            "gpu0/Slowdown": [1.0] * slowed + [0.0] * (120 - slowed),
            "gpu0/Temperature": [91.0] * 120,
        }
    )


def fires(run: str) -> None:
    """A quarter of the samples of three minutes report a slowdown."""
    write_minutes(run, [minute(slowed=30)] * 3)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(slowed=0)] * 3)
