"""L-BFGS on all samples at once; its closure is called many times for each update."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.detection.loop import Loop, evaluate, skill_of
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training

MOST_SAMPLES = 1000


def train(t: Training, hook: RunHook) -> float:
    x, y = t.samples.x[:MOST_SAMPLES], t.samples.y[:MOST_SAMPLES]
    parameters = [p for p in t.parameters(t.model) if p.requires_grad]
    search = None if t.slip == "no line search" else "strong_wolfe"
    rate = 30.0 if t.slip == "no line search" else 1.0
    optimizer = torch.optim.LBFGS(parameters, rate, max_iter=5, line_search_fn=search)
    hook.torch(t.model)
    t.model.train()

    def closure() -> Tensor:
        optimizer.zero_grad()
        penalty = t.weight_decay * sum((p**2).sum() for p in parameters) / 2
        loss: Tensor = t.loss(t.model(x), y) + penalty
        loss.backward()
        return loss

    for step in range(1, 41):
        optimizer.step(closure)
        if step % 8 == 0:
            t.model.eval()
            evaluate(t, t.model)
            t.model.train()
    return skill_of(t, t.model)


LOOP = Loop(
    train,
    needs=frozenset(["table"]),
    without=frozenset(["counts", "dropout", "plateau", "likelihood", "quantiles", "deep", "tuple"]),
    parts=frozenset(["samples", "model", "loss", "line search"]),
)
