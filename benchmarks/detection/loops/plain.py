"""The loop that most people write: a batch, a loss, an update, now and then an evaluation."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.detection.kit import scheduler_of
from benchmarks.detection.loop import GRADIENTS, Loop, batches, evaluate, optimizer_of, predict
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training


def train(t: Training, hook: RunHook) -> float:
    model, slip = t.model, t.slip
    optimizer = optimizer_of(t, model)
    scheduler = scheduler_of(optimizer, t.schedule, t.steps)
    every = t.steps // t.evaluations if t.evaluations else t.steps + 1
    hook.torch(model)
    model.train()
    if slip == "always in eval mode":
        model.eval()
    for step, (x, y) in enumerate(batches(t), 1):
        if slip != "gradients kept":
            optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=t.bfloat16):
            loss = t.loss(model(x), y)
        loss.backward()
        if slip == "cleared before the update":
            optimizer.zero_grad()
        if t.clip:
            nn.utils.clip_grad_norm_(model.parameters(), t.clip)
        if slip != "no update":
            optimizer.step()
        scheduler.step()
        if step % every == 0:
            if slip != "evaluated in train mode":
                model.eval()
            evaluate(t, model)
            if slip not in ("stays in eval mode", "always in eval mode"):
                model.train()
    if slip != "evaluated in train mode":
        model.eval()
    return predict(t, model)


LOOP = Loop(train, parts=GRADIENTS | {"loop"})
