"""StragglingNode: one of four machines is slower, and four that are alike."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(last: float) -> dict[str, Minute]:
    """The forward passes of four machines take 1 s, but those of the last one."""
    times = {"node_0": 1.0, "node_1": 1.0, "node_2": 1.0, "node_3": last}
    return {
        name: Minute(durations={"TRAIN": [3.0] * 20, "forward": [seconds] * 20})
        for name, seconds in times.items()
    }


def fires(run: str) -> None:
    write_minutes(run, [minute(1.4)] * 3)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(1.1)] * 3)
