"""smdebug's side of the benchmark of hooks, run by an interpreter that has it beside PyTorch."""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path

import smdebug
from google.protobuf.internal import api_implementation
from smdebug.pytorch import Hook, ReductionConfig, SaveConfig

from benchmarks._hooks_worker import Attach, Attached, main
from benchmarks._models import Training

# What comes nearest to a summary of those that it has.
REDUCTIONS = ReductionConfig(
    reductions=["min", "max", "mean", "std"], abs_reductions=["mean"], norms=["l2"]
)


def attach(
    training: Training,
    folder: Path,
    interval: int,
    *,
    collections: tuple[str, ...],
    reductions: ReductionConfig | None = None,
) -> Attached:
    """It writes in the training's own thread, so there is nothing to wait for."""
    hook = Hook(
        str(folder),
        save_config=SaveConfig(save_interval=interval),
        reduction_config=reductions,
        include_collections=list(collections),
    )
    hook.register_module(training.model)
    hook.register_loss(training.criterion)
    return Attached(lambda saves: None, hook.close)


VARIANTS: dict[str, Attach] = {
    "reductions": partial(
        attach,
        collections=("weights", "biases", "gradients", "losses"),
        reductions=REDUCTIONS,
    ),
    "raw weights": partial(attach, collections=("weights", "biases", "losses")),
}

if __name__ == "__main__":
    main(
        VARIANTS,
        {
            "python": platform.python_version(),
            "smdebug": smdebug.__version__,
            "protobuf": api_implementation.Type(),
        },
    )
