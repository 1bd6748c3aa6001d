"""BatchSize: a machine that is used half, and one whose memory is full."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(memory: float) -> Minute:
    return Minute(
        series={
            "cpu/CPUUtilization": [50.0] * 120,
            "gpu0/GPUUtilization": [50.0] * 120,
            "gpu0/MemoryUsedPercent": [memory] * 120,
        },
        durations={"TRAIN": [0.5] * 100},
    )


def fires(run: str) -> None:
    write_minutes(run, [minute(50.0)] * 10)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(85.0)] * 10)
