"""A task: what is learned, from what data, and how well the result is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Loss = Callable[[Any, Tensor], Tensor]
"""Of what the model returns, and the labels of a batch."""

Skill = Callable[[Any, Tensor], float]
"""Of the outputs for the held-out inputs, and their labels: 1 is perfect, 0 is a guess."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and labels to train on, and those held out. The first dimension is the sample."""

    x: Tensor
    y: Tensor
    held_x: Tensor
    held_y: Tensor


@dataclass(frozen=True)
class Task:
    """The data, model, loss, and skill of a training.

    ``traits`` say which loops and changes fit: ``classes``, ``binary``, ``numbers`` (the labels);
    ``table``, ``pictures``, ``tokens``, ``series`` (the inputs); ``joined`` (the model is a
    JoinedModel); and others that a loop or a change names. ``settings`` are fields of Training.
    """

    traits: frozenset[str]
    samples: Callable[[int], Samples]
    model: Callable[[], nn.Module]
    loss: Loss
    skill: Skill
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Training:
    """A task with all that a script decides before its loop; a change replaces a part of it.

    ``parameters`` are those that the optimizer gets. ``slip`` names what the loop itself does
    wrongly; ``keras`` and ``trees`` are options of those loops; ``world`` is the module whose
    ``observe`` and ``move`` are the environment of episodes. ``again`` makes the same training in
    another process.
    """

    seed: int
    samples: Samples
    model: nn.Module
    loss: Loss
    skill: Skill
    steps: int = 600
    rate: float = 3e-3
    batch: int = 32
    optimizer: str = "adam"
    schedule: str = "constant"
    weight_decay: float = 0.0
    clip: float | None = None
    evaluations: int = 8
    shuffled: bool = True
    bfloat16: bool = False
    parameters: Callable[[nn.Module], Iterable[nn.Parameter]] = nn.Module.parameters
    slip: str = ""
    keras: Mapping[str, Any] = field(default_factory=dict)
    trees: Mapping[str, Any] = field(default_factory=dict)
    world: Any = None
    again: Callable[[], Training] | None = None


def prepare(task: Task, seed: int) -> Training:
    """Make the samples and the model of a task, as everything that is drawn from the seed."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return Training(seed, task.samples(seed), task.model(), task.loss, task.skill, **task.settings)


def _unchanged(x: Tensor) -> Tensor:
    return x


class JoinedModel(nn.Module):
    """A body and a head, as most models are; ``between`` is applied to what the body returns."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head
        self.between: Callable[[Tensor], Tensor] = _unchanged

    def forward(self, x: Tensor) -> Any:
        return self.head(self.between(self.body(x)))
