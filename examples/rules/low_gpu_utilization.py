"""LowGPUUtilization: a GPU that is used 30 %, and one that is used 80 %."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(utilization: float) -> Minute:
    series = {"gpu0/GPUUtilization": [utilization] * 120}
    return Minute(series=series, durations={"TRAIN": [0.5] * 100})


def fires(run: str) -> None:
    write_minutes(run, [minute(30.0)] * 20)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(80.0)] * 20)
