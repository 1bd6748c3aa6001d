"""Runs to make a page of: a training that breaks, and odd ones."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import (
    END_MARKER,
    Captured,
    Collection,
    LocalStorage,
    RunWriter,
    summarize,
    trace_key,
)
from tocsin_hooks.machine import Minute, write_minutes

HOSTILE = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>"
LAYERS = 6
BROKE = 80


def broken(path: Path) -> None:
    """Gradients grow, then the loss is NaN at step BROKE, then all is."""
    random = np.random.default_rng(1)
    _write(path, (_step(random, step, step >= BROKE) for step in range(110)))


def healthy(path: Path) -> None:
    random = np.random.default_rng(1)
    _write(path, (_step(random, step, lost=False, grown=False) for step in range(90)))


def loss_only(path: Path) -> None:
    _write(path, ([_loss(2 * math.exp(-step / 30))] for step in range(60)))


def no_loss(path: Path) -> None:
    random = np.random.default_rng(1)
    _write(path, (_step(random, step, lost=False, grown=False)[2:] for step in range(40)))


def one_step(path: Path) -> None:
    _write(path, [_step(np.random.default_rng(1), 0, lost=False)])


def only_nan(path: Path) -> None:
    _write(path, (_step(np.random.default_rng(1), step, lost=True) for step in range(20)))


def nothing(path: Path) -> None:
    """Nothing is complete: the hook has begun, and saved no step."""
    RunWriter(LocalStorage(path), run_id="r").write_collections([Collection("losses")])


def many(path: Path) -> None:
    """5,000 tensors."""
    random = np.random.default_rng(1)

    def step(number: int) -> list[Captured]:
        value = random.standard_normal(8).astype(np.float32)
        summary = summarize(value, fingerprint=False)
        names = (f"gradient/block{at // 10}.layer{at % 10}.weight" for at in range(5000))
        made = [
            Captured(name, None, shape=(8,), dtype="float32", summary=summary) for name in names
        ]
        return [_loss(1 / (1 + number)), *made]

    _write(path, map(step, range(4)))


def hostile(path: Path) -> None:
    """Names that would run as scripts in a page that took them for HTML."""
    random = np.random.default_rng(1)

    def step(number: int) -> list[Captured]:
        weights = random.standard_normal(8).astype(np.float32)
        bad = weights * np.float32(np.nan if number > 20 else 1)
        return [_loss(1.0), _captured(f"gradient/{HOSTILE}", bad), _captured(HOSTILE, weights)]

    _write(path, map(step, range(40)))


def unfinished(path: Path) -> None:
    random = np.random.default_rng(1)
    _write(path, (_step(random, step, lost=False) for step in range(30)), ended=False)


def watched(path: Path) -> None:
    """A training with a machine run, which waits for data at first."""
    loss_only(path)
    busy = {f"gpu{at}/GPUUtilization": [90.0] * 120 for at in range(2)}
    idle = {f"gpu{at}/GPUUtilization": [30.0] * 120 for at in range(2)}
    times = {"TRAIN": [0.2, 0.25] * 50, "forward": [0.1] * 10}
    slow = Minute(60.0, {**idle, "cpu/CPUUtilization": [40.0]}, {**times, "wait": [0.3] * 100})
    good = Minute(60.0, {**busy, "cpu/CPUUtilization": [60.0]}, {**times, "wait": [0.01] * 100})
    minutes = [{"node_0": each, "node_1": each} for each in [slow] * 6 + [good] * 6]
    write_minutes(str(path / "profiler-output"), minutes)
    kernels = [("sgemm", 100, 40), ("ncclDevKernel_x", 120, 60), ("Memcpy HtoD", 190, 10)]
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": begin, "dur": duration, "tid": 7}
        for name, begin, duration in kernels
    ]
    trace = gzip.compress(json.dumps({"traceEvents": events}).encode())
    LocalStorage(path).write(trace_key("worker_0", 1), trace)


RUNS: dict[str, Callable[[Path], None]] = {
    function.__name__: function
    for function in (
        broken,
        healthy,
        loss_only,
        no_loss,
        one_step,
        only_nan,
        nothing,
        many,
        hostile,
        unfinished,
        watched,
    )
}


def _write(path: Path, steps: Iterable[list[Captured]], *, ended: bool = True) -> None:
    storage = LocalStorage(path)
    writer = RunWriter(storage, run_id="r")
    writer.write_collections(
        [
            Collection("losses", include_regex=("loss$",)),
            Collection("gradients", include_regex=("^gradient/",)),
            Collection("weights", include_regex=(r"^block\d+\.weight$",)),
            Collection("relu_output", include_regex=("^relu",)),
        ]
    )
    for number, tensors in enumerate(steps):
        writer.write(number, Mode.TRAIN, number, tensors)
    if ended:
        storage.write(END_MARKER, b"")


def _loss(value: float, name: str = "loss") -> Captured:
    return _captured(name, np.float32(value))


def _captured(name: str, value: np.ndarray | np.float32) -> Captured:
    array = np.asarray(value)
    return Captured(name, array, summary=summarize(array, fingerprint=False))


def _step(random: np.random.Generator, step: int, lost: bool, grown: bool = True) -> list[Captured]:
    factor = math.nan if lost else 10 ** max(0, (step - 60) / 6) if grown else 1.0
    loss = math.nan if lost else (2 * math.exp(-step / 40) + 0.1) * (factor if factor > 1 else 1)
    tensors = [_loss(loss), _loss(loss * 1.1, "validation_loss")]
    for layer in range(LAYERS):
        values = random.standard_normal(64).astype(np.float32)
        gradient = (values * np.float32(0.01)).astype(np.float64) * factor
        tensors.append(_captured(f"gradient/block{layer}.weight", gradient.astype(np.float32)))
        weight = summarize(values, values * np.float32(0.999), fingerprint=False)
        tensors.append(Captured(f"block{layer}.weight", values, summary=_quantiles(weight, values)))
        activity = summarize(np.maximum(values, 0), fingerprint=False)
        active = msgspec.structs.replace(activity, units=64, inactive_units=20 + layer)
        tensors.append(Captured(f"relu{layer}_output_0", np.maximum(values, 0), summary=active))
    return tensors


def _quantiles(summary: TensorSummary, values: np.ndarray) -> TensorSummary:
    known = {str(q): float(np.quantile(values, q)) for q in (0.05, 0.25, 0.5, 0.75, 0.95)}
    return msgspec.structs.replace(summary, quantiles=known)
