"""Losses, weights and gradients saved as values, as smdebug's scripts did, without a hook."""

from __future__ import annotations

from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.kit import scheduler_of
from benchmarks.detection.loop import Loop, batches, evaluate, optimizer_of, predict
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training


def train(t: Training, run: RunHook) -> float:
    hook = Hook(run.folder, save_interval=run.options.get("save_interval"))
    optimizer = optimizer_of(t, t.model)
    scheduler = scheduler_of(optimizer, t.schedule, t.steps)
    every = t.steps // t.evaluations if t.evaluations else t.steps + 1
    t.model.train()
    for step, (x, y) in enumerate(batches(t), 1):
        loss = t.loss(t.model(x), y)
        if t.slip != "gradients kept":
            optimizer.zero_grad()
        loss.backward()
        if t.clip:
            nn.utils.clip_grad_norm_(t.model.parameters(), t.clip)
        if t.slip != "no update":
            optimizer.step()
        scheduler.step()
        save(hook, t.model, loss)
        if step % every == 0:
            t.model.eval()
            with hook.step(modes.EVAL):
                hook.save("loss", evaluate(t, t.model), "losses", raw=True)
            t.model.train()
    hook.close()
    t.model.eval()
    return predict(t, t.model)


def save(hook: Hook, model: nn.Module, loss: Tensor) -> None:
    with hook.step(modes.TRAIN):
        if not hook.saving:
            return
        hook.save("loss", loss.item(), "losses", raw=True)
        for name, value in model.named_parameters():
            kind = "biases" if "bias" in name else "weights"
            hook.save(name, value.detach().numpy().copy(), kind, raw=True)
            if value.grad is not None:
                hook.save(f"gradient/{name}", value.grad.numpy().copy(), "gradients", raw=True)


LOOP = Loop(train)
