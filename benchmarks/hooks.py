"""The cost of hooks: trainings with Tocsin's, with smdebug's, and without one take turns.

    python -m benchmarks.hooks [--rounds 9] [--small] [--model resnet] [--python PATH]

ResNet-18 and a transformer of six layers are trained, and every tenth step is saved. A block of
steps (10, on a GPU 200) lasts until what it saves is written. Every variant has its own copy of
the model, and their blocks take turns in a new random order for each round. Nothing holds
Tocsin's hook to a share of the time, as it would be by default. smdebug has an environment of its
own with the same PyTorch, and is compared with trainings without a hook in its own process.

Memory is that of fresh processes, which train on so few examples that activations do not hide it.
A step that is not saved is timed on very small models of the same modules, one by one. At the end
stands what ``judge=True`` adds to a training's CPU time.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._hooks_process import ROOT, Failed
from benchmarks._hooks_sides import PLAIN, Measured, Side, measure

MODELS = {"resnet": "ResNet-18", "transformer": "Transformer, 6 layers"}
HEADER = f"{'ratio':>8}{'quartiles':>14}{'kB a save':>11}{'memory':>9}{'unsaved step':>21}"
_IMPORTS = 5  # fresh interpreters

_IMPORT = """
import sys, time, numpy
before, started = len(sys.modules), time.perf_counter()
import tocsin_hooks
print(time.perf_counter() - started, len(sys.modules) - before)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--small", action="store_true", help="tiny models: does it all work?")
    parser.add_argument("--model", choices=MODELS, help="only this one")
    parser.add_argument("--python", type=Path, help="has PyTorch, numpy and msgspec")
    parser.add_argument("--smdebug-python", type=Path, help="has PyTorch and smdebug")
    given = parser.parse_args()
    sides = (
        Side(
            "Tocsin",
            "_hooks_tocsin",
            lambda: given.python or _made("torch", "tests/frameworks/torch-requirements.txt"),
            ("loss alone", "summaries", "default rules", "raw weights"),
            (PLAIN, "no hook again"),
        ),
        Side(
            "smdebug",
            "_hooks_smdebug",
            lambda: (
                given.smdebug_python
                or _made("smdebug-torch", "benchmarks/smdebug-torch-requirements.txt")
            ),
            ("reductions", "raw weights"),
        ),
    )
    print(f"{platform.machine()}, medians of {given.rounds} rounds")
    for model in [given.model] if given.model else MODELS:
        with TemporaryDirectory() as folder:
            found = measure(sides, model, given.rounds, Path(folder), small=given.small)
        print("\n".join(("", *table(MODELS[model], found))), flush=True)
    print(f"\n{importing()}", flush=True)
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "benchmarks.judge"], env=one_thread, check=True)


def table(model: str, found: list[Measured]) -> Iterator[str]:
    """The lines about one model."""
    known = next((each.environment for each in found if each.environment), None)
    if known is not None:
        size = f"{known['parameters'] / 1e6:.1f} M weights in {known['tensors']} tensors"
        yield f"{model}, {size}, {known['device']}, {known['threads']} threads"
        steps = f"{known['steps']} steps"
        yield f"{'':18}{steps:>12}{HEADER}"
    for each in found:
        yield " ".join((each.side.name, versions(each)))
        if each.error is not None:
            yield f"  cannot be measured: {each.error}"
            continue
        for variant in (*each.side.plain, *each.side.hooked):
            yield row(each, variant)
        yield from device(each)


def versions(each: Measured) -> str:
    known = ("smdebug", "torch", "python", "protobuf")
    return ", ".join(f"{key} {each.environment[key]}" for key in known if key in each.environment)


def row(each: Measured, variant: str) -> str:
    low, middle, high = each.ratios(variant)
    time = f"  {variant:16}{1000 * each.seconds(variant):9,.0f} ms"
    spread = f"{f'{low:.3f}–{high:.3f}':>14}"
    if variant in each.side.plain:
        return f"{time}{'' if variant == PLAIN else f'{middle:.3f}×':>8}{spread}"
    run, (least, usual, most) = each.runs[variant], each.unsaved[variant]
    return (
        f"{time}{f'{middle:.3f}×':>8}{spread}{run['bytes'] / run['saves'] / 1e3:>11,.0f}"
        f"{each.memory[variant]:>9.1%}{f'{usual:.0f} µs ({least:.0f}–{most:.0f})':>21}"
    )


def device(each: Measured) -> Iterator[str]:
    """The measurements by events of the device, if there is one."""
    if each.environment["device"] == "cpu":
        return
    for variant in each.side.hooked:
        low, middle, high = each.ratios(variant, "device")
        run, plain = each.runs[variant], each.runs[PLAIN]
        waits = [f"{run['unasked'] - plain['unasked']} as PyTorch counts"]
        waits += [] if run["own"] is None else [f"{run['own']} as the hook does"]
        yield (
            f"  {variant}, by events of the device: {middle:.3f}× ({low:.3f}–{high:.3f}); "
            f"synchronisations a save: {', '.join(waits)}"
        )


def importing() -> str:
    """The time of `import tocsin_hooks` in a fresh interpreter that has imported numpy."""
    answers = [
        subprocess.run(
            [sys.executable, "-c", _IMPORT], stdout=subprocess.PIPE, text=True, check=True
        )
        for _ in range(_IMPORTS)
    ]
    found = [answer.stdout.split() for answer in answers]
    seconds = statistics.median(float(taken) for taken, _ in found)
    return (
        f"import tocsin_hooks: {1000 * seconds:.0f} ms and {found[0][1]} modules beyond numpy's, "
        f"Python {platform.python_version()}"
    )


def _made(name: str, requirements: str) -> Path:
    """The interpreter of ``.venv-NAME``. Raises Failed with the reason."""
    # Imported here: a machine with its own interpreters may not have its packages.
    from local.error import LocalError
    from local.interpreter import interpreter

    try:
        return interpreter(ROOT / f".venv-{name}", ROOT / requirements)
    except LocalError as error:
        raise Failed(str(error)) from error


if __name__ == "__main__":
    main()
