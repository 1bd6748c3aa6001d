"""IOBottleneck: an idle GPU while a core waits for disks, and one that works."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(utilization: float) -> Minute:
    return Minute(
        series={"gpu0/GPUUtilization": [utilization] * 120, "cpu/I/OWaitPercentage": [60.0] * 120},
        durations={"TRAIN": [0.5] * 100},
    )


def fires(run: str) -> None:
    write_minutes(run, [minute(5.0)] * 10)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(80.0)] * 10)
