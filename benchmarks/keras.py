"""The cost of the callback for Keras: trainings with and without it take turns, on each backend.

    python -m benchmarks.keras [--rounds 15] [--backend jax]

A small convolutional network is trained for an epoch of 50 batches at a time. Every variant has its
own copy of the model and goes on with it; what is saved is written at the side. Nothing holds the
hook to a share of the time, as it would be by default.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

from local.interpreter import interpreter

ROOT = Path(__file__).resolve().parents[1]
BACKENDS = ("torch", "jax", "tensorflow")
BATCHES = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--backend", choices=BACKENDS, help="only this one")
    given = parser.parse_args()
    python = interpreter(ROOT / ".venv-keras", ROOT / "tests/frameworks/keras-requirements.txt")
    print(f"{'':22}{'a batch':>10}{'ratio':>9}{'quartiles':>15}")
    for backend in [given.backend] if given.backend else BACKENDS:
        print("\n".join(table(backend, measure(python, backend, given.rounds))), flush=True)


def measure(python: Path, backend: str, rounds: int) -> dict[str, list[float]]:
    """The seconds of each epoch of each variant; of all the same number, in the order of rounds."""
    path = os.pathsep.join(str(ROOT / each) for each in (".", "rules_layer", "hooks"))
    done = subprocess.run(
        [python, "-m", "benchmarks._keras_process", str(rounds), str(BATCHES)],
        env=os.environ | {"KERAS_BACKEND": backend, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])["seconds"]
    return found


def table(backend: str, seconds: dict[str, list[float]]) -> list[str]:
    """The lines about a backend: each variant beside the first one, of the same rounds."""
    (_, alone), *_ = seconds.items()
    lines = [f"Keras on {backend}"]
    for name, found in seconds.items():
        ratios = [one / other for one, other in zip(found, alone, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else 3 * ratios
        batch = 1000 * statistics.median(found) / BATCHES
        spread = "" if found is alone else f"{middle:>8.3f}×{f'{low:.3f}–{high:.3f}':>15}"
        lines.append(f"  {name:20}{batch:>7.2f} ms{spread}")
    return lines


if __name__ == "__main__":
    main()
