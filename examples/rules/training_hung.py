"""TrainingHung: no step for three minutes, and steps all the time."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(steps: int) -> Minute:
    """So many steps of 2 s, and processors that do nothing."""
    return Minute(series={"cpu/CPUUtilization": [1.0] * 120}, durations={"TRAIN": [2.0] * steps})


def fires(run: str) -> None:
    write_minutes(run, [minute(steps=30)] * 5 + [minute(steps=0)] * 3)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(steps=30)] * 8)
