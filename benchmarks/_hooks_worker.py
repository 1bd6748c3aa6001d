"""The measuring process of either library: trains, and answers in JSON, a line for each question.

    python -m benchmarks._hooks_tocsin blocks|memory|unsaved MODEL FOLDER [--small] VARIANT…

``blocks`` reads names of variants from its standard input and trains a block of each in turn; the
others print one answer. Each variant has a copy of the model, so that none leaves a trace in
another.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks._models import MODELS, Size, Training

INTERVAL = 10
LEAD = 5  # steps before the first block, so that its saved step lies in the middle of each
UNSAVED_ROUNDS, TIMED = 30, 15
NEVER = 1_000_000
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCK = INTERVAL if DEVICE == "cpu" else 20 * INTERVAL  # steps; where they are short, more of them

Answer = dict[str, Any]


@dataclass(frozen=True)
class Attached:
    """A hook on a model: ``wait`` until so many saves are written, and ``close``.

    ``waits`` counts how often it has waited for a device, in whichever thread, if it knows.
    """

    wait: Callable[[int], None]
    close: Callable[[], None]
    waits: Callable[[], int | None] = lambda: None


Attach = Callable[[Training, Path, int], Attached]
"""Puts a hook on a model; it writes to a folder, every so many steps."""


class Variant:
    """A training with or without a hook, which goes on block by block."""

    def __init__(self, training: Training, attached: Attached | None = None) -> None:
        self.training = training
        self.attached = attached
        self._steps = 0
        self.train(LEAD)

    def train(self, steps: int) -> Answer:
        """Seconds of so many steps, until all that they save is written, and those that the
        device was busy with them."""
        with _device_time() as device:
            started = time.perf_counter()
            for _ in range(steps):
                self.training.step()
        self._steps += steps
        if self.attached is not None:
            self.attached.wait((self._steps - 1) // INTERVAL + 1)
        return {"seconds": time.perf_counter() - started, **device}

    def close(self) -> None:
        if self.attached is not None:
            self.attached.close()


def main(attach: Mapping[str, Attach], environment: Answer) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("blocks", "memory", "unsaved"))
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_intermixed_args()
    sizes: dict[str, Size] = {"blocks": "full", "memory": "few", "unsaved": "small"}
    size: Size = "small" if given.small else sizes[given.what]
    if size != "full":
        torch.set_num_threads(1)  # more would only wait for each other

    def training() -> Training:
        return MODELS[given.model](DEVICE, size)

    def answer(found: Answer) -> None:
        print(json.dumps(found), flush=True)

    chosen = {name: attach.get(name) for name in given.variants}
    if given.what == "blocks":
        blocks(chosen, training, given.folder, environment, answer)
    elif given.what == "memory":
        answer(memory(attach.get(given.variants[0]), training(), given.folder))
    else:
        rounds = 2 if given.small else UNSAVED_ROUNDS
        answer(unsaved(attach[given.variants[0]], training, given.folder, rounds))


def blocks(
    attach: Mapping[str, Attach | None],
    training: Callable[[], Training],
    folder: Path,
    environment: Answer,
    answer: Callable[[Answer], None],
) -> None:
    """Trains blocks of variants on request, and reports at the end what was saved."""
    variants = {}
    for name, put in attach.items():
        copy = training()
        variants[name] = Variant(copy, put and put(copy, folder / name, INTERVAL))
    parameters = list(next(iter(variants.values())).training.model.parameters())
    answer(
        environment
        | {
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu",
            "threads": torch.get_num_threads(),
            "steps": BLOCK,
            "parameters": sum(parameter.numel() for parameter in parameters),
            "tensors": len(parameters),
        }
    )
    for line in sys.stdin:
        answer(variants[line.strip()].train(BLOCK))
    synchronised = {name: synchronisations(variant) for name, variant in variants.items()}
    for variant in variants.values():
        variant.close()
    answer({name: written(folder / name) | synchronised[name] for name in variants})


def memory(attach: Attach | None, training: Training, folder: Path) -> Answer:
    """The most memory that this process ever had, with three saves, and what the weights take."""
    variant = Variant(training, attach and attach(training, folder, INTERVAL))
    variant.train(2 * INTERVAL)
    variant.close()
    weights = sum(each.numel() * each.element_size() for each in training.model.parameters())
    return {"peak": peak(), "weights": weights}


def peak() -> int:
    """Bytes: on a GPU those that PyTorch had there, else those of the process."""
    if DEVICE == "cuda":
        return int(torch.cuda.max_memory_allocated())
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)


def unsaved(attach: Attach, training: Callable[[], Training], folder: Path, rounds: int) -> Answer:
    """Seconds that a hook adds to a step that is not saved. The model is a very small one of the
    same modules, so that microseconds can be seen. A hook is there only when its turn is, for it
    may have PyTorch call it for every model.
    """
    plain, added = training(), []
    for number in range(rounds):
        hooked = training()
        attached = attach(hooked, folder / str(number), NEVER)
        with_hook = least(hooked)
        attached.close()
        added.append(with_hook - least(plain))
    return {"added": statistics.quantiles(added, method="inclusive")}


def least(training: Training) -> float:
    """The least seconds that a step keeps this thread busy, after some that are not timed."""
    taken = []
    for _ in range(LEAD + TIMED):
        started = time.thread_time()
        training.step()
        taken.append(time.thread_time() - started)
    return min(taken[LEAD:])


def synchronisations(variant: Variant) -> Answer:
    """Return how often a save waits for the device, in ten steps of which one is saved: as PyTorch
    warns of calls that do so unasked, and by the hook's own count of what it waits for."""
    if DEVICE != "cuda":
        return {}
    waits = variant.attached.waits if variant.attached else lambda: None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        before = waits()
        try:
            variant.train(INTERVAL)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        after = waits()
    own = None if before is None or after is None else after - before
    return {"unasked": sum("synchroniz" in str(each.message) for each in caught), "own": own}


def written(run: Path) -> Answer:
    """Saves of a run, and their bytes in index and event files."""
    files = [path for room in ("index", "events") for path in (run / room).rglob("*.*")]
    sizes = [path.stat().st_size for path in files if path.is_file()]
    return {"saves": sum(1 for _ in (run / "index").rglob("*.json")), "bytes": sum(sizes)}


@contextmanager
def _device_time() -> Iterator[Answer]:
    """Fills in the ``device`` seconds between its two ends, where there is a device."""
    found: Answer = {}
    if DEVICE != "cuda":
        yield found
        return
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    yield found
    end.record()
    end.synchronize()
    found["device"] = start.elapsed_time(end) / 1000
