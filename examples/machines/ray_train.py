"""Ray Train with a judge: two workers, each with a hook; the first one's judges the run.

python ray_train.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from tocsin.watch import to_watch
from tocsin_hooks import Hook, TrainingStopped

WATCH = {"extend_profile": True, "rules": [{"rule": "ExplodingTensor", "actions": ["stop"]}]}
"""Not a file: workers start in folders of their own."""


def train_loop(config: dict[str, Any]) -> None:
    """The loop of a worker. A rule with the action stop ends it, and so the job."""
    from ray import train

    rank = train.get_context().get_world_rank()
    x, weight = np.random.default_rng(rank).normal(size=(64, 8)), np.zeros(8)
    y = x @ np.arange(8.0)
    options = {"watch": to_watch(config["watch"]), "worker": f"worker_{rank}", "save_interval": 5}
    with Hook(config["out"], judge="stop", **options) as hook:
        for _ in range(config["steps"]):
            with hook.step():
                error = x @ weight - y
                weight -= config["rate"] * x.T @ error / len(x)
                loss = float(np.square(error).mean())
                hook.save("loss", loss, collection="losses")
            train.report({"loss": loss})


def main(out: str) -> None:
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    config = {"out": out, "watch": WATCH, "steps": 200, "rate": 0.1}
    TorchTrainer(
        train_loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2)
    ).fit()


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "/mnt/shared/runs/first")
    except TrainingStopped as error:
        sys.exit(str(error))
