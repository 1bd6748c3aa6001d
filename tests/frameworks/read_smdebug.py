"""Prints what smdebug's own Trial sees of a run; run by an interpreter that has smdebug."""

from __future__ import annotations

import json
import sys

from smdebug.core.modes import ModeKeys
from smdebug.trials import create_trial


def main() -> None:
    trial = create_trial(sys.argv[1])
    seen = {
        "steps": {mode.name: trial.steps(mode=mode) for mode in ModeKeys},
        "loaded_all_steps": trial.loaded_all_steps,
        "workers": sorted(trial.workers()),
        "num_workers": trial.num_workers,
        "modes": sorted(mode.name for mode in trial.modes()),
        "names": sorted(trial.tensor_names()),
        "collections": {
            name: {
                "include_regex": sorted(found.include_regex),
                "tensor_names": sorted(trial.tensor_names(collection=name)),
            }
            for name, found in trial.collections().items()
        },
        "tensors": {name: tensor(trial, name) for name in trial.tensor_names()},
    }
    print(json.dumps(seen))


def tensor(trial, name):
    """Values (or shapes, or reductions) at each global step, by worker."""
    found = trial.tensor(name)
    return {
        step: {
            worker: {
                "value": read(found.value, step, worker=worker),
                "shape": read(found.shape, step, worker=worker),
                "reductions": read(reductions, found, step, worker),
            }
            for worker in found.workers(step)
        }
        for step in found.steps()
    }


def read(function, *arguments, **options):
    """What the function returns, or the name of what it raises."""
    try:
        value = function(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - smdebug raises many types, and a few by mistake
        return type(error).__name__
    if hasattr(value, "dtype"):
        if value.dtype.kind == "c":
            return {"dtype": str(value.dtype), "value": [value.real.tolist(), value.imag.tolist()]}
        return {"dtype": str(value.dtype), "value": value.tolist()}
    return value if value is None or isinstance(value, dict) else list(value)


def reductions(found, step, worker):
    """Those that were saved; smdebug would compute the others from the value."""
    stored = found.reduction_values(step, worker=worker).items()
    return {("abs_" if absolute else "") + name: float(value) for (name, absolute), value in stored}


if __name__ == "__main__":
    main()
