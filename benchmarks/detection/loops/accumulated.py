"""Gradients of four small batches are added up for each update."""

from __future__ import annotations

from torch import nn

from benchmarks.detection.kit import scheduler_of
from benchmarks.detection.loop import GRADIENTS, Loop, batches, evaluate, optimizer_of, skill_of
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training

PARTS = 4


def train(t: Training, hook: RunHook) -> float:
    small = max(1, t.batch // PARTS)
    optimizer = optimizer_of(t, t.model)
    scheduler = scheduler_of(optimizer, t.schedule, t.steps)
    hook.torch(t.model)
    t.model.train()
    optimizer.zero_grad()
    for number, (x, y) in enumerate(batches(t, PARTS * t.steps, small), 1):
        loss = t.loss(t.model(x), y)
        (loss if t.slip == "parts not divided" else loss / PARTS).backward()
        if number % PARTS:
            continue
        if t.clip:
            nn.utils.clip_grad_norm_(t.model.parameters(), t.clip)
        optimizer.step()
        if t.slip != "never cleared":
            optimizer.zero_grad()
        scheduler.step()
        step = number // PARTS
        if t.evaluations and step % (t.steps // t.evaluations) == 0:
            t.model.eval()
            evaluate(t, t.model)
            t.model.train()
    return skill_of(t, t.model)


LOOP = Loop(
    train,
    without=frozenset(["adversarial", "episodes", "small", "batch_norm", "contrastive", "graph"]),
    parts=GRADIENTS | {"accumulation"},
)
