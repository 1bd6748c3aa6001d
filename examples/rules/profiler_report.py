"""ProfilerReport: it never fires."""

from tocsin_hooks.machine import Minute, write_minutes


def stays_quiet(run: str) -> None:
    write_minutes(run, [Minute(durations={"TRAIN": [0.5] * 100})] * 2)
