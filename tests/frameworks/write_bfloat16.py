"""Writes a run of bfloat16 arrays and prints it as read; run by an interpreter with ml_dtypes."""

from __future__ import annotations

import json
import sys

import ml_dtypes
import msgspec
import numpy as np
from tocsin.model import Detail, Mode
from tocsin.tensors import Captured, RunWriter, detailed, open_storage, read_values, summarize


def main() -> None:
    values = {
        "matrix": np.array([[1.5, -2.0], [0.0, 3.140625]], ml_dtypes.bfloat16),
        "scalar": ml_dtypes.bfloat16(2.5),
        "0-d": np.array(-4, ml_dtypes.bfloat16),
        "empty": np.empty((0, 3), ml_dtypes.bfloat16),
        "strided": np.arange(8).astype(ml_dtypes.bfloat16)[::2],
        "odd": np.array([np.nan, np.inf, 1.0], ml_dtypes.bfloat16),
    }
    storage = open_storage(sys.argv[1])
    captured = [
        Captured(name, value, summary=summarize(np.asarray(value)))
        for name, value in values.items()
    ]
    index = RunWriter(storage, run_id="0").write(0, Mode.TRAIN, 0, captured)
    read = read_values(storage, index)
    zero = np.zeros(4, ml_dtypes.bfloat16)
    seen = {
        entry.name: {
            "stored as": entry.dtype,
            "read as": str(read[entry.name].dtype),
            "shape": read[entry.name].shape,
            "equal": np.array_equal(
                read[entry.name].reshape(-1),
                np.asarray(values[entry.name]).astype(np.float32).reshape(-1),
                equal_nan=True,
            ),
            "summary": msgspec.to_builtins(entry.summary),
        }
        for entry in index.entries
    }
    update = summarize(np.arange(4).astype(ml_dtypes.bfloat16), zero)
    wide = np.arange(-6, 6, dtype=np.float32).reshape(2, 3, 2)
    asked = Detail(quantiles=(0.05, 0.5), active=(-1, 1), channel_axis=1)
    details = [
        msgspec.to_builtins(detailed(value, asked))
        for value in (wide, wide.astype(ml_dtypes.bfloat16))
    ]
    more = {"update": [update.update_l1, update.update_l2], "details": details}
    print(json.dumps(seen | more))


if __name__ == "__main__":
    main()
