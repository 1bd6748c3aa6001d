"""The head is trained alone first; then the whole model, with a new optimizer and a lower rate."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from benchmarks.detection.kit import scheduler_of
from benchmarks.detection.loop import GRADIENTS, Loop, batches, evaluate, optimizer_of, skill_of
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training


def train(t: Training, hook: RunHook) -> float:
    hook.torch(t.model)
    first = replace(t, steps=t.steps // 4, seed=t.seed + 1)
    t.model.body.requires_grad_(False)
    optimizer = phase(first)
    if t.slip != "body frozen to the end":
        t.model.body.requires_grad_(True)
    if t.slip == "optimizer of the first phase":
        phase(t, optimizer)
    else:
        phase(t)
    return skill_of(t, t.model)


def phase(t: Training, optimizer: object = None) -> object:
    """Train with an optimizer of what is not frozen now, or with an older one; return it."""
    used = optimizer or optimizer_of(t, t.model)
    scheduler = scheduler_of(used, t.schedule, t.steps)
    t.model.train()
    for step, (x, y) in enumerate(batches(t), 1):
        loss = t.loss(t.model(x), y)
        used.zero_grad()
        loss.backward()
        if t.clip:
            nn.utils.clip_grad_norm_(t.model.parameters(), t.clip)
        used.step()
        scheduler.step()
        if t.evaluations and step % max(1, t.steps // t.evaluations) == 0:
            t.model.eval()
            evaluate(t, t.model)
            t.model.train()
    return used


LOOP = Loop(
    train,
    needs=frozenset(["joined"]),
    without=frozenset(["adversarial", "episodes", "plateau", "imbalanced"]),
    parts=GRADIENTS | {"phases"},
)
