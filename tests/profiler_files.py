"""Files as Amazon's profiler writes them: system metrics of a node, timelines of a worker."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MINUTE = 29_850_000  # 2026-10-03 00:00 UTC
Event = tuple[str, str, float, float, Mapping[str, Any]]
"""Phase, name, seconds from the beginning of the first minute, duration in seconds, args."""


def hour(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%d%H}"


def lines(
    minute: int = MINUTE,
    node: str = "algo-1",
    *,
    cores: Sequence[float] = (20.0, 40.0),
    wait: float = 0.0,
    gpus: Sequence[float] = (),
    activity: float = 0.0,
    interval: float = 0.5,
    ticks: int = 120,
) -> str:
    """JSON lines of a minute, as the agent writes them: 8 + 2 for each core and GPU a sample."""
    found: list[str] = []

    def add(kind: str, name: str, dimension: str, value: float, time: float) -> None:
        keys = ("Type", "Name", "Dimension", "Value", "NodeId", "Timestamp")
        values = (kind, name, dimension, value, node, round(time, 6))
        found.append(json.dumps(dict(zip(keys, values, strict=True))))

    for tick in range(ticks):
        at = 60 * minute + 0.009 + tick * interval
        add("memory", "MemoryUsedPercent", "", 12.5, at)
        for name in ("IOPS", "ReadThroughputInBytesPerSecond", "WriteThroughputInBytesPerSecond"):
            add("i/o", name, "", 10.0, at + 0.001)
        for number, value in enumerate(cores):
            add("cpu", f"cpu{number}", "CPUUtilization", value, at + 0.002)
            add("cpu", f"cpu{number}", "I/OWaitPercentage", wait, at + 0.002)
        for dimension in ("Algorithm", "Platform"):
            for name in ("ReceiveBytesPerSecond", "TransmitBytesPerSecond"):
                add(
                    "network", name, dimension, 5.0 if dimension == "Algorithm" else 6e7, at + 0.004
                )
        for number, value in enumerate(gpus):
            add("gpu", f"gpu{number}", "GPUUtilization", value, at + 0.005)
            add("gpu", f"gpu{number}", "GPUMemoryUtilization", activity, at + 0.005)
    return "".join(f"{line}\n" for line in found)


def system_key(minute: int = MINUTE, node: str = "algo-1") -> str:
    return f"system/incremental/{hour(60 * minute)}/{60 * minute}.{node}.json"


def timeline_key(end: float, worker: str = "7-algo-1", kind: str = "pythontimeline") -> str:
    """``end``: seconds since the epoch."""
    return f"framework/pevents/{hour(end)}/{round(end * 1e6)}_{worker}_{kind}.json"


def timeline(events: Iterable[Event], minute: int = MINUTE) -> str:
    """The text of a timeline. Its times count from the beginning of the minute."""
    base = minute * 60_000_000
    pids: dict[str, int] = {}
    rows: list[dict[str, Any]] = [
        {
            "name": "process_name",
            "ph": "M",
            "pid": 0,
            "args": {"start_time_since_epoch_in_micros": base},
        },
        {"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}},
    ]
    for phase, name, start, duration, args in events:
        pid = pids.setdefault(phase, len(pids))
        rows.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": phase}})
        ts, dur = round(start * 1e6), round(duration * 1e6)
        rows.append({"name": name, "pid": pid, "ph": "X", "ts": ts, "dur": dur, "args": {**args}})
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]"


def steps(starts: Iterable[float], duration: float, mode: str = "TRAIN") -> list[Event]:
    name = f"Step:ModeKeys.{mode}"
    return [
        (name, name, start, duration, {"pid": 7, "step_num": str(at)})
        for at, start in enumerate(starts)
    ]


def write(folder: Path, key: str, text: str, *, packed: bool = False) -> None:
    path = folder / (f"{key}.gz" if packed else key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
