"""MaxInitializationTime: no step in 21 minutes, and a first step after 5."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(steps: int) -> Minute:
    return Minute(durations={"TRAIN": [2.0] * steps})


def fires(run: str) -> None:
    write_minutes(run, [minute(steps=0)] * 22)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(steps=0)] * 5 + [minute(steps=10)] * 17)
