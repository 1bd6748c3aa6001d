"""The events of a training that a user's check may look at, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import Optimizer


@dataclass(frozen=True)
class LossComputed:
    """A loss function of ``torch.nn.functional`` was called in training, also by a module.

    function: its name, such as ``cross_entropy``.
    prediction, target, value: its arguments and its result, as they are.
    inputs: the tensors that the model was given.
    place: the line of the script, ``train.py:31``.
    """

    function: str
    prediction: Tensor
    target: Tensor
    value: Tensor
    inputs: tuple[Tensor, ...]
    place: str


@dataclass(frozen=True)
class UpdateBegins:
    """An optimizer is about to update the model: gradients are as it gets them."""

    model: nn.Module
    optimizer: Optimizer


@dataclass(frozen=True)
class UpdateEnds:
    """An optimizer has updated the model."""

    model: nn.Module
    optimizer: Optimizer


@dataclass(frozen=True)
class StepEnds:
    """A training step ends: the next one begins, or an evaluation.

    step: its number among those of training, from 0.
    """

    model: nn.Module
    step: int


Event = LossComputed | UpdateBegins | UpdateEnds | StepEnds


@dataclass(frozen=True)
class Finding:
    """The contract of a check is broken.

    detail: added to what the check says: a number, or a name.
    place: a line of the script, or a name; by default the line that runs.
    """

    detail: str = ""
    place: str = ""
