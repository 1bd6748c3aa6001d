"""The cost of the rules: a step of summaries, raw tensors, and a long run against a short one.

    python -m benchmarks.rules [--rounds 3]

Runs are evaluated as ``tocsin check`` does it, from files in memory where the machine has a file
system there: listing, decoding, selecting and all that the default rules do is in the time.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
from tocsin.evaluation import check
from tocsin.model import Detail, Mode, Role
from tocsin.rules import RECOMMENDED, rule_names
from tocsin.tensors import Captured, Collection, RunWriter, detailed, open_storage, summarize
from tocsin.watch import RuleConfig, Watch

MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, and a folder of our own in it
LAYERS = 40  # 5 tensors each
SHORT, LONG = 200, 4_000
ALL = Watch(rules=tuple(RuleConfig(name) for name in rule_names()))
DEFAULT = Watch()
TWO = Watch(rules=(RuleConfig("ExplodingTensor"), RuleConfig("VanishingGradient")))
COLLECTIONS = [Collection("losses", tensor_names=("loss",))]
ACTIVE = Detail(active=(0.0, None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        of_summaries(Path(name), rounds)
        print()
        of_values(Path(name), rounds)


def of_summaries(folder: Path, rounds: int) -> None:
    """A step of 200 summaries, early in a run and over a long one."""
    for steps in (SHORT, LONG):
        write_summaries(folder / f"{steps}", steps)
    print(f"{LAYERS * 5} summaries a step       rules   ms a step, {SHORT} steps   {LONG} steps")
    for what, watch in (("by default", DEFAULT), ("all of them", ALL)):
        times: dict[int, list[float]] = {SHORT: [], LONG: []}
        for _ in range(rounds):
            for steps, taken in times.items():
                taken.append(seconds(folder / f"{steps}", watch) / steps)
        short, long = (1000 * statistics.median(taken) for taken in times.values())
        number = len(watch.rules or rule_names(RECOMMENDED))
        print(f"{what:22} {number:7} {short:16.2f} {long:23.2f}   {long / short:.2f}×")


def of_values(folder: Path, rounds: int) -> None:
    """Weights and gradients as smdebug writes them: whole, without summaries. The two rules are
    ExplodingTensor and VanishingGradient, which need no update.
    """
    size = write_values(folder / "values", 10)
    for what, watch in (("only two", TWO), ("by default", DEFAULT), ("all of them", ALL)):
        taken = statistics.median(seconds(folder / "values", watch) for _ in range(rounds))
        print(f"raw tensors, {size / 1e6:.0f} MB, rules {what:12} {size / taken / 1e9:.2f} GB/s")


def seconds(run: Path, watch: Watch) -> float:
    started = time.perf_counter()
    check(open_storage(run), watch)
    return time.perf_counter() - started


def write_summaries(run: Path, steps: int) -> None:
    rng = np.random.default_rng(0)
    writer = RunWriter(open_storage(run), run_id="benchmark")
    writer.write_collections(COLLECTIONS)
    drawn = [list(layers(rng, summarized=True)) for _ in range(20)]
    for step in range(steps):
        loss = Captured("loss", np.float32([2.0 / (1 + step / 50) + rng.normal() / 50]))
        writer.write(step, Mode.TRAIN, step, [loss, *drawn[step % len(drawn)]])
    writer.close()


def write_values(run: Path, steps: int) -> int:
    """The bytes of all values."""
    rng = np.random.default_rng(0)
    writer = RunWriter(open_storage(run), extras=False)
    names = [tensor.name for tensor in layers(rng, summarized=False)]
    writer.write_collections(
        [
            *COLLECTIONS,
            Collection("weights", tensor_names=tuple(n for n in names if "gradient" not in n)),
            Collection("gradients", tensor_names=tuple(n for n in names if "gradient" in n)),
        ]
    )
    size = 0
    for step in range(steps):
        tensors = list(layers(rng, summarized=False))
        size += sum(tensor.value.nbytes for tensor in tensors)
        writer.write(
            step, Mode.TRAIN, step, [Captured("loss", np.float32([1 / (step + 1)])), *tensors]
        )
    writer.close()
    return size


def layers(rng: np.random.Generator, *, summarized: bool) -> Iterator[Captured]:
    """A step of a model: 40 layers with weight, bias, both gradients and a ReLU."""
    side = 32 if summarized else 512
    for layer in range(LAYERS):
        name = f"layer{layer}"
        for tensor, shape, role in (
            (f"{name}.weight", (side, side), Role.WEIGHT),
            (f"{name}.bias", (side,), Role.BIAS),
            (f"gradient/{name}.weight", (side, side), Role.GRADIENT),
            (f"gradient/{name}.bias", (side,), Role.GRADIENT),
        ):
            value = rng.standard_normal(shape, dtype=np.float32)
            if not summarized:
                yield Captured(tensor, value)
                continue
            summary = summarize(value, value + np.float32(0.001))
            yield Captured(tensor, shape=shape, dtype="float32", role=role, summary=summary)
        if summarized:
            yield relu(rng, f"{name}_relu_output", side)


def relu(rng: np.random.Generator, name: str, units: int) -> Captured:
    value = np.maximum(rng.standard_normal((16, units), dtype=np.float32), 0)
    counts = msgspec.structs.asdict(detailed(value, ACTIVE))
    known = {field: found for field, found in counts.items() if found is not None}
    return Captured(
        name,
        shape=value.shape,
        dtype="float32",
        role=Role.ACTIVATION_OUTPUT,
        kind="relu",
        summary=msgspec.structs.replace(summarize(value), **known),
    )


if __name__ == "__main__":
    main()
