"""A call of a loss function: its arguments by their names, and where it was made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.names import is_loss

_FUNCTIONS = (
    F.binary_cross_entropy,
    F.binary_cross_entropy_with_logits,
    F.cross_entropy,
    F.ctc_loss,
    F.gaussian_nll_loss,
    F.huber_loss,
    F.kl_div,
    F.l1_loss,
    F.mse_loss,
    F.nll_loss,
    F.poisson_nll_loss,
    F.smooth_l1_loss,
)
_NAMES = {"log_probs": "input", "targets": "target"}  # of CTC


def _parameters(function: Any) -> tuple[str, ...]:
    code = function.__code__
    return tuple(_NAMES.get(each, each) for each in code.co_varnames[: code.co_argcount])


PARAMETERS: Mapping[Any, tuple[str, ...]] = {each: _parameters(each) for each in _FUNCTIONS}
"""The names of the arguments of each loss function, in their order."""
_SYMMETRIC = frozenset({F.huber_loss, F.l1_loss, F.mse_loss, F.smooth_l1_loss})
_MOST_FRAMES = 13  # from a loss function outwards, in which a loss module is looked for


@dataclass(frozen=True)
class LossCall:
    """A call of a loss function: its arguments by name, and its result.

    place: the line of the script; module: the class of the loss module that called it.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    value: Any
    place: str
    module: str | None = None

    @property
    def name(self) -> str:
        return str(self.function.__name__)

    @property
    def prediction(self) -> Any:
        return self.arguments["input"]

    @property
    def target(self) -> Any:
        return self.arguments["target"]

    @property
    def has_classes(self) -> bool:
        """Return whether the targets are class indices."""
        return self.name in ("cross_entropy", "nll_loss") and not self.target.is_floating_point()


def loss_call(function: Any, args: Any, kwargs: Any, value: Any) -> LossCall:
    """Return a call of a loss function, made by the frames above."""
    arguments = dict(zip(PARAMETERS[function], args, strict=False))
    arguments |= {_NAMES.get(name, name): each for name, each in kwargs.items()}
    module: str | None = None
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if frame.f_code.co_name == "forward":
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch.nn.Module) and is_loss(owner):
                module = type(owner).__name__  # of modules in modules the outermost counts
        frame = frame.f_back
    if function in _SYMMETRIC and _requires_grad(arguments["target"]):
        one, other = arguments["input"], arguments["target"]
        if not _requires_grad(one):
            arguments |= {"input": other, "target": one}
    return LossCall(function, arguments, value, script_line(), module)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
