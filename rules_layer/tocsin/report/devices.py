"""The utilization of devices over minutes, as bytes that the page colours."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import numpy as np

from tocsin.report.machine_parts import Utilization
from tocsin.tensors import IndexFile

_COLUMNS = 360
_ROWS = 1000


def utilization_of(minutes: Sequence[IndexFile], first: int) -> Utilization | None:
    """Return the mean of each GPU, and of the processors of each node."""
    means: dict[tuple[str, str], dict[int, float]] = {}
    for minute in minutes:
        for entry in minute.entries:
            if entry.kind not in ("gpu_utilization", "cpu") or entry.summary is None:
                continue
            if (mean := entry.summary.mean) is not None:
                device = minute.worker, entry.name.partition("/")[0]
                means.setdefault(device, {})[minute.step] = mean
    if not means:
        return None
    steps = np.array(sorted({minute.step for minute in minutes}))
    columns = min(_COLUMNS, len(steps))
    starts = steps[np.arange(columns) * len(steps) // columns]
    rows = sorted(means, key=_device)[:_ROWS]
    cells = np.zeros((len(rows), columns), np.uint8)
    for row, device in enumerate(rows):
        own = np.array(list(means[device].items()))
        column = np.searchsorted(starts, own[:, 0], side="right") - 1
        count = np.bincount(column, minlength=columns)
        total = np.bincount(column, own[:, 1], minlength=columns)
        shown = np.clip(total / np.maximum(count, 1), 0, 100)
        cells[row] = np.where(count > 0, 2 + np.rint(shown / 100 * 252), 0)
    return Utilization(
        rows=[f"{node} {name}" for node, name in rows],
        x=[int(step) - first for step in starts],
        end=int(steps[-1]) - first + 1,
        cells=base64.b64encode(zlib.compress(cells.tobytes(), 6)).decode(),
    )


def _device(device: tuple[str, str]) -> tuple[str, bool, int, str]:
    """The order of rows: by node, GPUs by their number, then the processors."""
    node, name = device
    number = name.removeprefix("gpu")
    return node, not number.isdigit(), int(number) if number.isdigit() else 0, name
