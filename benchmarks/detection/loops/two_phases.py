"""Two optimizers one after the other: a short and slow first phase, then a longer one."""

from __future__ import annotations

import copy
from dataclasses import replace

from torch import nn

from benchmarks.detection.kit import scheduler_of
from benchmarks.detection.loop import GRADIENTS, Loop, batches, evaluate, optimizer_of, skill_of
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training


def train(t: Training, hook: RunHook) -> float:
    hook.torch(t.model)
    phase(replace(t, steps=t.steps // 6, seed=t.seed + 1, rate=t.rate / 3))
    second = t
    if t.slip == "second optimizer of a copy":
        other = copy.deepcopy(t.model)
        second = replace(t, parameters=lambda _: other.parameters())
    if t.slip == "second rate of 30":
        second = replace(t, optimizer="sgd", rate=30.0, clip=None)
    phase(second)
    return skill_of(t, t.model)


def phase(t: Training) -> None:
    optimizer = optimizer_of(t, t.model)
    scheduler = scheduler_of(optimizer, t.schedule, t.steps)
    t.model.train()
    for step, (x, y) in enumerate(batches(t), 1):
        loss = t.loss(t.model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if t.clip:
            nn.utils.clip_grad_norm_(t.model.parameters(), t.clip)
        optimizer.step()
        scheduler.step()
        if t.evaluations and step % max(1, t.steps // t.evaluations) == 0:
            t.model.eval()
            evaluate(t, t.model)
            t.model.train()


LOOP = Loop(
    train,
    without=frozenset(["adversarial", "episodes", "plateau", "small"]),
    parts=GRADIENTS | {"phases"},
)
