"""A training for the pages about machines: linear regression, which diverges at a rate above 1.

python train.py --out runs/j1 --rate 0.1
"""

from __future__ import annotations

import argparse
import logging
import time

import numpy as np
from tocsin_hooks import Hook


def train(out: str, rate: float = 0.1, steps: int = 200, pause: float = 0.0) -> float:
    """Train and return the last loss. Ends early when somebody asks the run to stop."""
    x, weight = np.random.default_rng(0).normal(size=(64, 8)), np.zeros(8)
    y, loss = x @ np.arange(8.0), 0.0
    hook = Hook(out, save_interval=5)
    for _ in range(steps):
        if hook.should_stop:
            break
        with hook.step():
            error = x @ weight - y
            weight -= rate * x.T @ error / len(x)
            loss = float(np.square(error).mean())
            hook.save("loss", loss, collection="losses")
            time.sleep(pause)
    hook.close()
    return loss


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="runs/first")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of a step")
    args = parser.parse_args()
    print(f"loss {train(args.out, args.rate, args.steps, args.pause):.3g}")
