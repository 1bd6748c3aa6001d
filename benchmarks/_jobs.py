"""The jobs that smdebug and Tocsin both write and read. Imported under smdebug's Python, too."""

from __future__ import annotations

import time

import numpy as np

STEPS = {"A": 1000, "B": 50}


def tensors(job):
    """Names and values of one step: 50 scalars, or 160 tensors that make 10 MB."""
    if job == "A":
        return [(f"scalar/s{number}", np.float32(number)) for number in range(50)]
    rng = np.random.default_rng(0)
    return [
        (f"layer{number}/weight", rng.standard_normal((125, 131)).astype(np.float32))
        for number in range(160)
    ]


def read(create_trial, path):
    """Seconds that it takes to open a finished run, and to read every value by itself."""
    start = time.perf_counter()
    trial = create_trial(path)
    opened = time.perf_counter()
    for name in trial.tensor_names():
        tensor = trial.tensor(name)
        for step in tensor.steps():
            tensor.value(step)
    return opened - start, time.perf_counter() - opened
