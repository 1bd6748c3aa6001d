"""GPUErrors: a GPU falls off the bus, and one that works."""

from tocsin_hooks.machine import Minute, write_minutes


def fires(run: str) -> None:
    series = {"gpu0/GPUUtilization": [90.0] * 60, "gpu0/XID": [79.0]}
    write_minutes(run, [Minute(series=series)])


def stays_quiet(run: str) -> None:
    write_minutes(run, [Minute(series={"gpu0/GPUUtilization": [90.0] * 120})])
