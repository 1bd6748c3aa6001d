"""StepTimeOutlier: a tenth of the steps is slow, and steps of one length."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(slow: int) -> Minute:
    """36 steps of 0.1 s, and slow ones."""
    return Minute(durations={"TRAIN": [0.1] * 36 + [1.0] * slow})


def fires(run: str) -> None:
    """In each minute 4 steps take 1 s."""
    write_minutes(run, [minute(slow=4)] * 5)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(slow=0)] * 5)
