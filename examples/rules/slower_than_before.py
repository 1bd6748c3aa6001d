"""SlowerThanBefore: steps that take longer from some minute on, and steps that do not."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(seconds: float) -> Minute:
    return Minute(durations={"TRAIN": [seconds] * 100})


def fires(run: str) -> None:
    write_minutes(run, [minute(0.2)] * 10 + [minute(0.3)] * 5)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(0.2)] * 10 + [minute(0.22)] * 5)
