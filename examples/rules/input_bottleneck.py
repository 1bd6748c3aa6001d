"""InputBottleneck: a loader that the training waits for, and one that is fast enough."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(wait: float) -> Minute:
    """100 steps, each after a wait for its batch, and a GPU that is used 55 %."""
    durations = {"TRAIN": [0.45] * 100, "wait": [wait] * 100}
    return Minute(series={"gpu0/GPUUtilization": [55.0] * 120}, durations=durations)


def fires(run: str) -> None:
    """Of each minute 15 seconds pass with waiting for 100 batches."""
    write_minutes(run, [minute(wait=0.15)] * 6)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(wait=0.01)] * 6)
