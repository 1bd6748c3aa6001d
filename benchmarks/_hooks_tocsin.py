"""Our side of the benchmark of hooks, run by an interpreter that has PyTorch."""

from __future__ import annotations

import platform
import time
from functools import partial
from pathlib import Path

from tocsin.watch import Capture, CollectionConfig, Watch
from tocsin_hooks import Hook
from tocsin_hooks.torch import TorchHook

from benchmarks._hooks_worker import Attach, Attached, main
from benchmarks._models import Training

PARAMETERS = ("weights", "biases")
_MOST_SECONDS = 60


def watch(*collections: str, raw: bool = False) -> Watch:
    """Only these collections, whatever rules would like besides."""
    config = CollectionConfig(save_raw_tensor=raw)
    return Watch(rules=(), capture=Capture(collections=dict.fromkeys(collections, config)))


def attach(
    training: Training, folder: Path, interval: int, *, watch: Watch | None = None
) -> Attached:
    hook = Hook(folder, watch, interval, max_overhead=None)
    attached = TorchHook.attach(training.model, hook)

    def wait(saves: int) -> None:
        until = time.monotonic() + _MOST_SECONDS
        while hook.stats.saved < saves:
            assert time.monotonic() < until, f"{saves} saves, but {hook.stats}"
            time.sleep(0.0005)

    def close() -> None:
        attached.close()
        hook.close()

    assert attached.training is not None
    step = attached.training.step
    return Attached(wait, close, lambda: step.synchronisations)


VARIANTS: dict[str, Attach] = {
    "loss alone": partial(attach, watch=watch("losses")),
    "summaries": partial(attach, watch=watch(*PARAMETERS, "gradients", "losses")),
    "default rules": attach,
    "raw weights": partial(attach, watch=watch(*PARAMETERS, raw=True)),
}

if __name__ == "__main__":
    main(VARIANTS, {"python": platform.python_version()})
