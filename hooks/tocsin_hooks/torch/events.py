"""The events of a training that checks look at: ours, and those that users write."""

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
    """An optimizer is about to update the model: gradients are as it gets them, unless it computes
    them itself by a ``closure``. ``seen``: calls were looked at until now."""

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
    """The model, or a part of it, is given these inputs. ``first``: in the first pass of a saved
    step, one of the first updates."""

    inputs: GivenInputs
    first: bool


@dataclass(frozen=True)
class ModelCalled:
    """The model is called, with a single sample or not. ``trains``: in a step of training;
    ``judged``: losses of the step in hand were seen; ``first``: as of the inputs."""

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
    """Nothing more of the last forward pass is to come."""


# Calls until gradients are computed.


@dataclass(frozen=True)
class Called:
    """A function of PyTorch gave ``found``. ``inside``: of a forward pass, or else after the model
    was given ``inputs``."""

    function: Callable[..., Any]
    args: Any
    kwargs: Mapping[str, Any]
    found: Any
    inside: bool
    inputs: GivenInputs


@dataclass(frozen=True)
class Dropped:
    """A dropout in a forward pass dropped that share, and gave ``found``."""

    share: float
    found: Tensor


@dataclass(frozen=True)
class Detached:
    """A tensor is going to be detached."""

    tensor: Tensor


@dataclass(frozen=True)
class PartComputed:
    """A call in training gave what may be a part of a loss that the script computes."""

    call: RecordedCall


# Gradients, updates and ends.


@dataclass(frozen=True)
class Backward:
    """Gradients of ``loss`` are going to be computed: of these outputs of the model, as far as they
    are known, for the inputs that it was given last."""

    loss: Any
    outputs: Sequence[Any]
    inputs: GivenInputs


@dataclass(frozen=True)
class BackwardEnds:
    """Gradients were computed."""


@dataclass(frozen=True)
class OrderIgnored:
    """The loss by hand in that line is the same whichever label belongs to which sample."""

    place: str


@dataclass(frozen=True)
class OtherUpdateBegins:
    """An optimizer is about to update something else than the model."""

    model: nn.Module
    optimizer: Optimizer


@dataclass(frozen=True)
class UpdatesSkipped:
    """There were so many updates by each optimizer that nothing looked at."""

    updates: Mapping[Any, int]


@dataclass(frozen=True)
class SavedStepEnds:
    """A step that is saved ends; ``loss`` computes the loss of an evaluation, if it has one."""

    evaluates: bool
    loss: Callable[[], float | None]


@dataclass(frozen=True)
class TrainingEnds:
    """No step comes after the one in hand, which is saved or not. The model may be gone."""

    model: nn.Module | None
    saving: bool


ENDS = frozenset({PassEnds, PassForgotten, LossForgotten, TrainingEnds})
"""What checks are told also when no rule wants them any more: they let go of what they hold."""


@dataclass(frozen=True)
class Finding:
    """The contract of a check is broken.

    detail: added to what the check says: a number, or a name.
    place: a line of the script, or a name; by default the line that runs.
    """

    detail: str = ""
    place: str = ""


Event = LossComputed | UpdateBegins | UpdateEnds | StepEnds
"""What checks of users may take."""
