"""GPUMemoryIncrease: memory that rises from 20 % to 44 %, and one that stays."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(memory: float) -> Minute:
    return Minute(
        series={"gpu0/MemoryUsedPercent": [memory] * 120}, durations={"TRAIN": [0.5] * 100}
    )


def fires(run: str) -> None:
    write_minutes(run, [minute(20.0)] * 10 + [minute(44.0)] * 2)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(44.0)] * 12)
