"""Dataloader: one loader worker on 8 cores, and eight."""

from tocsin_hooks.machine import Minute, write_minutes


def minute(workers: float) -> Minute:
    return Minute(
        series={"loader/workers": [workers] * 60, "cpu/cores": [8.0]},
        durations={"TRAIN": [0.3] * 100, "wait": [0.2] * 100},
    )


def fires(run: str) -> None:
    write_minutes(run, [minute(1.0)] * 2)


def stays_quiet(run: str) -> None:
    write_minutes(run, [minute(8.0)] * 2)
