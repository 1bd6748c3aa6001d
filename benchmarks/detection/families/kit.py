"""What the trainings of several families share: a loop as many write it, and measures of skill."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from tocsin import modes
from tocsin_hooks import Hook
from torch import Tensor, nn

Criterion = Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True)
class Split:
    """Samples to train on, and those held out."""

    x: Tensor
    y: Tensor
    held_x: Tensor
    held_y: Tensor


@dataclass(frozen=True)
class LoopOptions:
    """How a model is trained. The defaults are healthy; what follows ``zero_grad`` need not be.

    only: the optimizer gets the parameters whose name holds this text alone.
    other_model: the optimizer gets the parameters of a copy that was made before.
    eval_scale: a factor of the inputs in evaluation alone.
    memorise: so many samples are trained on.
    """

    steps: int = 1000
    rate: float = 3e-3
    batch: int = 32
    optimizer: str = "adam"
    schedule: str = "constant"
    accumulate: int = 1
    clip: float | None = None
    weight_decay: float = 0.0
    noise: float = 0.0
    evaluate_every: int = 100
    zero_grad: bool = True
    only: str = ""
    other_model: bool = False
    eval_mode: bool = False
    eval_scale: float = 1.0
    train_scale: float = 1.0
    shuffled: bool = False
    sorted: bool = False
    memorise: int | None = None
    nan_from: int | None = None


def begin(seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def optimizer_of(kind: str, parameters: Any, rate: float, decay: float = 0.0) -> Any:
    if kind == "sgd":
        return torch.optim.SGD(parameters, rate, weight_decay=decay)
    if kind == "momentum":
        return torch.optim.SGD(parameters, rate, momentum=0.9, weight_decay=decay)
    if kind == "adamw":
        return torch.optim.AdamW(parameters, rate, weight_decay=decay)
    return torch.optim.Adam(parameters, rate, weight_decay=decay)


def factor(kind: str, step: int, steps: int) -> float:
    """The learning rate at a step, as a share of the highest."""
    done = step / steps
    if kind == "warmup":
        return min(1.0, (step + 1) / (0.1 * steps)) * (1 - 0.9 * done)
    if kind == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done)) + 1e-3
    if kind == "restarts":
        return 0.5 * (1 + math.cos(math.pi * (4 * done % 1))) + 1e-3
    if kind == "one cycle":
        return 4 * done if done < 0.25 else (1 - done) / 0.75 + 1e-3
    if kind == "jump":
        return 1.0 if done < 0.5 else 1000.0
    if kind == "ends early":
        return 1.0 if done < 0.02 else 0.0
    return 1.0


def scheduler_of(optimizer: Any, kind: str, steps: int) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(kind, step, steps))


def with_noise(y: Tensor, share: float, seed: int) -> Tensor:
    """Replaces a share of the labels by labels of other samples, chosen at random."""
    draw = torch.Generator().manual_seed(seed)
    other = y[torch.randperm(len(y), generator=draw)]
    chosen = torch.rand(len(y), generator=draw) < share
    return torch.where(chosen.reshape(-1, *[1] * (y.dim() - 1)), other, y)


def training_part(data: Split, how: LoopOptions, seed: int) -> tuple[Tensor, Tensor]:
    x, y = data.x * how.train_scale if how.train_scale != 1 else data.x, data.y
    if how.memorise:
        x, y = x[: how.memorise], y[: how.memorise]
    if how.shuffled or how.noise:
        y = with_noise(y, 1.0 if how.shuffled else how.noise, seed + 1)
    if how.sorted:
        order = y.reshape(len(y), -1)[:, 0].argsort(stable=True)
        x, y = x[order], y[order]
    return x, y


def fit(
    model: nn.Module, data: Split, criterion: Criterion, how: LoopOptions, hook: Any, seed: int
) -> None:
    """Train with the hook attached, and evaluate on what is held out every now and then."""
    x, y = training_part(data, how, seed)
    trained = copy.deepcopy(model) if how.other_model else model
    named = trained.named_parameters()
    parameters = [p for name, p in named if p.requires_grad and how.only in name]
    hook.torch(model)
    optimizer = optimizer_of(how.optimizer, parameters, how.rate, how.weight_decay)
    scheduler = scheduler_of(optimizer, how.schedule, how.steps)
    draw = torch.Generator().manual_seed(seed + 2)
    model.train(not how.eval_mode)
    for step in range(how.steps):
        if how.zero_grad:
            optimizer.zero_grad()
        for part in range(how.accumulate):
            rows = _rows(step * how.accumulate + part, len(x), how, draw)
            batch = x[rows]
            if how.nan_from is not None and step == how.nan_from:
                batch = batch * float("nan")
            loss = criterion(model(batch), y[rows])
            (loss / how.accumulate).backward()
        if how.clip:
            nn.utils.clip_grad_norm_(model.parameters(), how.clip)
        optimizer.step()
        scheduler.step()
        if how.evaluate_every and step % how.evaluate_every == how.evaluate_every - 1:
            model.eval()
            with torch.no_grad():
                for begin_at in range(0, min(256, len(data.held_x)), 128):
                    part_x = data.held_x[begin_at : begin_at + 128]
                    part_x = part_x * how.eval_scale if how.eval_scale != 1 else part_x
                    criterion(model(part_x), data.held_y[begin_at : begin_at + 128])
            model.train(not how.eval_mode)


def _rows(number: int, count: int, how: LoopOptions, draw: torch.Generator) -> Tensor:
    if how.sorted:
        return torch.arange(number * how.batch, (number + 1) * how.batch) % count
    return torch.randint(count, (min(how.batch, count),), generator=draw)


def outputs(model: nn.Module, data: Split, how: LoopOptions) -> Any:
    """What the model says of the held-out inputs, as the script feeds them."""
    model.eval()
    x = data.held_x * how.eval_scale if how.eval_scale != 1 else data.held_x
    if how.train_scale != 1 and how.eval_scale == 1:
        x = x * how.train_scale
    with torch.no_grad():
        return model(x)


def save_values(
    hook: Hook, model: nn.Module, loss: Tensor, name: str = "loss", biases: str = "biases"
) -> None:
    """One step of training, as a script with smdebug's calls saves it: the loss by its name,
    parameters and gradients. Biases are in a collection of their own, or among the weights."""
    with hook.step(modes.TRAIN):
        if not hook.saving:
            return
        hook.save(name, loss.item(), "losses", raw=True)
        for path, value in model.named_parameters():
            kind = biases if "bias" in path else "weights"
            hook.save(path, value.detach().numpy().copy(), kind, raw=True)
            if value.grad is not None:
                hook.save(f"gradient/{path}", value.grad.numpy().copy(), "gradients", raw=True)


def class_skill(scores: Tensor, y: Tensor) -> float:
    """Accuracy above that of the most frequent class; scores are (N, C)."""
    most = torch.bincount(y).max().item() / len(y)
    right = (scores.argmax(1) == y).double().mean().item()
    return (right - most) / (1 - most) if bool(torch.isfinite(scores).all()) else math.nan


def balanced_skill(scores: Tensor, y: Tensor) -> float:
    """Mean recall over classes, above chance."""
    found = scores.argmax(1)
    kinds = y.unique()
    recall = torch.stack([(found[y == k] == k).double().mean() for k in kinds]).mean().item()
    chance = 1 / len(kinds)
    return (recall - chance) / (1 - chance) if bool(torch.isfinite(scores).all()) else math.nan


def explained(prediction: Tensor, y: Tensor) -> float:
    """The share of the variance that is explained."""
    assert prediction.shape == y.shape, (prediction.shape, y.shape)
    return 1 - ((prediction - y) ** 2).mean().item() / y.var(unbiased=False).item()


def ranking_skill(scores: Tensor, y: Tensor) -> float:
    """Twice the area under the ROC curve, less one."""
    order = scores.argsort()
    ranks = torch.empty(len(y), dtype=torch.float64)
    ranks[order] = torch.arange(1, len(y) + 1, dtype=torch.float64)
    ones = int(y.sum())
    area = (ranks[y > 0.5].sum().item() - ones * (ones + 1) / 2) / (ones * (len(y) - ones))
    return 2 * area - 1 if bool(torch.isfinite(scores).all()) else math.nan


def dense(sizes: Sequence[int], activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """A perceptron."""
    layers: list[nn.Module] = []
    for inputs, units in pairwise(sizes):
        layers += [nn.Linear(inputs, units), activation()]
    return nn.Sequential(*layers[:-1])
