"""The events of a training, which the dispatcher gives to built-in checks and to those of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.capture.given_inputs import GivenInputs

# Those that checks of users may take.


@dataclass(frozen=True)
class LossComputed:
    """A loss function of ``torch.nn.functional`` was called, also by a module. Checks of users get
    those of training.

    function: its name, such as ``cross_entropy``.
    prediction, target, value: its arguments and its result, as they are.
    inputs: the tensors that the model was given.
    place: the line of the script, ``train.py:31``.
    """

    call: LossCall
    inputs: tuple[Tensor, ...]

    @property
    def function(self) -> str:
        return self.call.name

    @property
    def prediction(self) -> Tensor:
        found: Tensor = self.call.prediction
        return found

    @property
    def target(self) -> Tensor:
        found: Tensor = self.call.target
        return found

    @property
    def value(self) -> Tensor:
        found: Tensor = self.call.value
        return found

    @property
    def place(self) -> str:
        return self.call.place


@dataclass(frozen=True)
class UpdateBegins:
    """An optimizer is about to update the model, with the present gradients.

    seen: the calls that led to these gradients were looked at.
    closure: the optimizer computes the gradients itself, by a closure.
    """

    model: nn.Module
    optimizer: Optimizer
    seen: bool = True
    closure: bool = False


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


# Forward passes.


@dataclass(frozen=True)
class PassBegins:
    """A forward pass begins."""


@dataclass(frozen=True)
class LossForgotten:
    """A loss will not be computed from what came before."""


@dataclass(frozen=True)
class InputsGiven:
    """The model, or a part of it, is given these inputs.

    first: it is the first pass of a saved step, early in the training.
    """

    inputs: GivenInputs
    first: bool


@dataclass(frozen=True)
class ModelCalled:
    """The model is called.

    alone: with a single sample.
    trains: in a step of training.
    judged: a loss of the current step was seen.
    first: as in ``InputsGiven``.
    """

    model: nn.Module
    alone: bool
    trains: bool = False
    judged: bool = False
    first: bool = False


@dataclass(frozen=True)
class PassEnds:
    """A forward pass has ended."""


@dataclass(frozen=True)
class PassForgotten:
    """The last forward pass is over, whether it ended or raised."""


# Calls until gradients are computed.


@dataclass(frozen=True)
class Called:
    """A function of PyTorch has returned ``found``.

    inside: it was called in a forward pass.
    inputs: what the model was given last.
    """

    function: Callable[..., Any]
    args: Any
    kwargs: Mapping[str, Any]
    found: Any
    inside: bool
    inputs: GivenInputs


@dataclass(frozen=True)
class Dropped:
    """A dropout in a forward pass dropped a share of its inputs, and returned ``found``."""

    share: float
    found: Tensor


@dataclass(frozen=True)
class Detached:
    """A tensor is about to be detached."""

    tensor: Tensor


@dataclass(frozen=True)
class PartComputed:
    """A call in training returned what may be a part of a hand-written loss."""

    call: RecordedCall


# Gradients, updates and ends.


@dataclass(frozen=True)
class Backward:
    """Gradients of ``loss`` are about to be computed.

    outputs: those of the model, as far as they are known.
    inputs: what the model was given last.
    """

    loss: Any
    outputs: Sequence[Any]
    inputs: GivenInputs


@dataclass(frozen=True)
class BackwardEnds:
    """Gradients were computed."""


@dataclass(frozen=True)
class OrderIgnored:
    """A hand-written loss, in that line, does not change if its labels are shuffled."""

    place: str


@dataclass(frozen=True)
class OtherUpdateBegins:
    """An optimizer is about to update something other than the model."""

    model: nn.Module
    optimizer: Optimizer


@dataclass(frozen=True)
class OpponentsKnown:
    """Two optimizers take turns, as those of a GAN do."""


@dataclass(frozen=True)
class UpdatesSkipped:
    """Idle steps have passed, with a number of updates by each optimizer."""

    updates: Mapping[Any, int]


@dataclass(frozen=True)
class SavedStepEnds:
    """A saved step ends.

    evaluates: it is an evaluation.
    loss: computes the loss of the evaluation; None if it has none.
    """

    evaluates: bool
    loss: Callable[[], float | None]


@dataclass(frozen=True)
class TrainingEnds:
    """The current step is the last one.

    model: None if it has been deleted.
    """

    model: nn.Module | None


ENDS = frozenset({PassEnds, PassForgotten, LossForgotten, TrainingEnds})
"""Events that reach a check even if no rule wants it: it releases the tensors that it keeps."""


@dataclass(frozen=True)
class Finding:
    """The contract of a check is broken.

    detail: added to what the check says: a number, or a name.
    place: a line of the script, or a name; by default the line that runs.
    """

    detail: str = ""
    place: str = ""


Event = LossComputed | UpdateBegins | UpdateEnds | StepEnds
"""The events that checks of users may take."""
