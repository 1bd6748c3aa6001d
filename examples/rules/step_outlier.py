"""StepOutlier: 20 of 200 steps that take ten times as long, and 5 of them."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(slow: int) -> Minute:
    return Minute(durations={"TRAIN": [0.1] * (50 - slow) + [1.0] * slow})


def fires(run: str) -> None:
    write_minutes(run, [minute(slow=5)] * 4)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(slow=0)] * 3 + [minute(slow=5)])
