"""MemoryLeak: memory that grows from 40 to 64 %, and memory that goes up and down."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(percent: float) -> Minute:
    return Minute(series={"memory/MemoryUsedPercent": [percent] * 120})


def fires(run: str) -> None:
    write_minutes(run, [minute(40 + 0.8 * at) for at in range(31)])


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(40 + 5 * (at % 5)) for at in range(31)])
