"""CPUBottleneck: an idle GPU beside a busy core, and one that works."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(utilization: float) -> Minute:
    return Minute(
        series={"gpu0/GPUUtilization": [utilization] * 120, "cpu/busiest": [95.0] * 120},
        durations={"TRAIN": [0.5] * 100},
    )


def fires(run: str) -> None:
    write_minutes(run, [minute(5.0)] * 10)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(80.0)] * 10)
