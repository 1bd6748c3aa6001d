"""What ui.perfetto.dev and chrome://tracing need of a trace so that they show all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_SLACK = 1e-3  # µs, of numbers that are rounded


def opened(events: Sequence[dict[str, Any]]) -> dict[tuple[Any, Any], float]:
    """The end of each lane in µs. Fails where a viewer would drop an event, or draw it wrong."""
    lanes: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for event in events:
        assert event["ph"] in "MXCisf", event
        if event["ph"] != "M":
            assert event["ts"] >= 0, event
        if event["ph"] == "X":
            lanes.setdefault((event["pid"], event["tid"]), []).append(event)
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
    return {lane: _nested(own) for lane, own in lanes.items()}


def _nested(slices: list[dict[str, Any]]) -> float:
    """Slices of a lane lie in each other or follow each other, and never overlap in part."""
    open_: list[float] = []
    last = 0.0
    for event in sorted(slices, key=lambda each: (each["ts"], -each["dur"])):
        begin, end = event["ts"], event["ts"] + event["dur"]
        while open_ and open_[-1] <= begin + _SLACK:
            open_.pop()
        assert not open_ or end <= open_[-1] + _SLACK, event
        open_.append(end)
        last = max(last, end)
    return last
