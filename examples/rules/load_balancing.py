"""LoadBalancing: one GPU of four that does less, and four that do the same."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(second: float) -> Minute:
    used = [95.0, second, 95.0, 95.0]
    return Minute(
        series={f"gpu{at}/GPUUtilization": [value] * 120 for at, value in enumerate(used)},
        durations={"TRAIN": [0.5] * 100},
    )


def fires(run: str) -> None:
    write_minutes(run, [minute(60.0)] * 10)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(90.0)] * 10)
