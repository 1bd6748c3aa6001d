"""Every private name of PyTorch that the hook uses, each in one place under a descriptive name.

A new version of PyTorch may rename any of them. Then nothing here raises: the answer is the one of
"not known", and the check that asks finds nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import nn

# Names of the nodes that autograd records: which function computed a tensor.
ABS, CLAMP = "AbsBackward0", "ClampBackward1"
ADD, SUB = "AddBackward0", "SubBackward0"
CAT, STACK = "CatBackward0", "StackBackward0"
EXP, LOG = "ExpBackward0", "LogBackward0"
EXPAND, TO_DTYPE = "ExpandBackward0", "ToCopyBackward0"
HUBER_LOSS = "HuberLossBackward0"
INDEX, GATHER = "IndexBackward0", "GatherBackward0"
CONVOLUTION, LINEAR = "ConvolutionBackward0", "AddmmBackward0"  # with a bias, of rows
LOG_SOFTMAX, LOGSUMEXP = "LogSoftmaxBackward0", "LogsumexpBackward0"
LSTM_ON_CPU = "MkldnnRnnLayerBackward0"
MASKED_SELECT = "MaskedSelectBackward0"
MAXIMUM, MINIMUM = "MaximumBackward0", "MinimumBackward0"
MSE_LOSS = "MseLossBackward0"
MUL, DIV = "MulBackward0", "DivBackward0"
NEG, POW = "NegBackward0", "PowBackward0"
RELU, SIGMOID = "ReluBackward0", "SigmoidBackward0"
SELECT, SLICE = "SelectBackward0", "SliceBackward0"
SMOOTH_L1_LOSS = "SmoothL1LossBackward0"
SOFTMAX, SOFTPLUS = "SoftmaxBackward0", "SoftplusBackward0"
SQRT, TANH = "SqrtBackward0", "TanhBackward0"
VECTOR_NORM, WHERE = "LinalgVectorNormBackward0", "WhereBackward0"
MATRIX_PRODUCTS = frozenset({"BmmBackward0", "MmBackward0"})
MAXIMA_OF_AXES = frozenset({"AmaxBackward0", "MaxBackward0"})
MEAN, SUM = "MeanBackward0", "SumBackward0"
MEANS, SUMS = frozenset({MEAN, "MeanBackward1"}), frozenset({SUM, "SumBackward1"})  # or of axes
VIEWS = frozenset({"UnsafeViewBackward0", "ViewBackward0"})
OF_DERIVATIVES = "BackwardBackward"  # part of the name of what computes a second derivative
_RESHAPES = re.compile(
    r"(Alias|Clone|Permute|ReshapeAlias|Squeeze|T|ToCopy|Transpose|UnsafeView|Unsqueeze|View)"
    r"Backward\d"
)
_MAKES_ROOM = re.compile(r"(Alias|Expand|ReshapeAlias|UnsafeView|Unsqueeze|View)Backward\d")

SETS_GRADIENTS: Any = getattr(torch._C, "_set_grad_enabled", None)  # what torch.no_grad calls
BATCH_NORM: Any = getattr(nn.modules.batchnorm, "_BatchNorm", nn.BatchNorm1d)
DROPOUT: Any = getattr(nn.modules.dropout, "_DropoutNd", nn.Dropout)
LOSS: Any = getattr(nn.modules.loss, "_Loss", nn.MSELoss)
"""Base classes of modules."""

COMPILED_CHILD = "_orig_mod"
"""The child of a module that ``torch.compile`` made, which is the module itself."""
WRAPPER_CHILDREN = frozenset({COMPILED_CHILD, "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
DRAW_GAMMA = "_standard_gamma"  # draws for gamma, beta and chi-squared distributions


def name_of(node: Any) -> str:
    """Return the class of a node, as ``ReluBackward0``; empty for None."""
    return "" if node is None else str(node.name())


def inputs_of(node: Any) -> list[Any]:
    """Return the nodes that gave a node its arguments; None for an argument without a gradient."""
    return [each for each, _ in _edges(node)]


def edges_of(node: Any) -> list[tuple[Any, int]]:
    """Return the same nodes without None, each with the number of its result that is meant."""
    return [(each, number) for each, number in _edges(node) if each is not None]


def _edges(node: Any) -> Sequence[tuple[Any, int]]:
    return getattr(node, "next_functions", ())


def output_number(tensor: Any) -> int:
    """Return the index of a tensor among the outputs of the node that computed it."""
    return getattr(tensor, "output_nr", 0)


def parameter_of(node: Any) -> Any:
    """Return the leaf in which a node accumulates gradients; None for other nodes."""
    return getattr(node, "variable", None)


def gives_another_form(node: Any) -> bool:
    """Return whether a node changes only the shape or the type of a tensor, not its values."""
    return _RESHAPES.fullmatch(name_of(node)) is not None


def makes_room(node: Any) -> bool:
    """Return whether a node may have added an axis."""
    return _MAKES_ROOM.fullmatch(name_of(node)) is not None


def _saved(node: Any, name: str) -> Any:
    """Return the saved tensors of a node; None without any, or if they are freed."""
    with suppress(AttributeError, RuntimeError):
        return getattr(node, f"_saved_{name}")
    return None


def constant_of(node: Any) -> Any:
    """Return the factor of a product, or the divisor of a quotient, that needs no gradient: a
    tensor, or None for a number. What is divided must need one."""
    first = next(iter(inputs_of(node)), None)
    return _saved(node, "self" if first is None else "other")


def divisor_of(node: Any) -> Any:
    """Return the divisor of a quotient, or the second factor of a product."""
    return _saved(node, "other")


def argument_of(node: Any) -> Any:
    """Return the argument of a logarithm."""
    return _saved(node, "self")


def result_of(node: Any) -> Any:
    """Return the output of a softmax, sigmoid or square root."""
    return _saved(node, "result")


class Softmax(NamedTuple):
    """The axis and the shape of a softmax, log-softmax or logsumexp."""

    shape: tuple[int, ...]
    axis: int


def softmax_of(node: Any) -> Softmax | None:
    """Return the axis of a softmax, log-softmax or logsumexp."""
    result, axis = _saved(node, "result"), _saved(node, "dim")
    if name_of(node) == LOGSUMEXP:
        result = _saved(node, "self")
    axis = axis[0] if isinstance(axis, tuple) and axis else axis
    if result is None or not isinstance(axis, int) or not result.dim():
        return None
    axis = axis - (1 << 64) if axis >= 1 << 63 else axis  # kept without a sign
    return Softmax(tuple(result.shape), axis % result.dim())


def matrices_of(node: Any) -> tuple[Any, Any]:
    """Return the factors of a product of matrices; None for one that was not kept."""
    return _saved(node, "self"), _saved(node, "mat2")


def indices_of(node: Any) -> list[Any]:
    """Return the index tensors of ``tensor[…]`` or ``gather``; None for an axis that is not
    indexed.
    """
    if name_of(node) == GATHER:
        return [_saved(node, "index")]
    return [*(_saved(node, "indices") or ())]


def limits_of(node: Any) -> tuple[Any, Any] | None:
    """Return the minimum and the maximum of a ``clamp``; None without that limit."""
    if not hasattr(node, "_saved_min"):
        return None
    return _saved(node, "min"), _saved(node, "max")


def exponent_of(node: Any) -> Any:
    """Return the exponent of a ``pow``."""
    return _saved(node, "exponent")


def viewed_shape(node: Any) -> tuple[int, ...] | None:
    """Return the shape before a view."""
    shape = _saved(node, "self_sym_sizes")
    return None if shape is None else tuple(shape)


def version_of(tensor: Any) -> int:
    """Return how often a tensor was changed in place."""
    return 0 if tensor.is_inference() else getattr(tensor, "_version", 0)


def base_of(tensor: Any) -> Any:
    """Return the tensor that another one is a view of; None if it is not a view."""
    return getattr(tensor, "_base", None)


backward_pass: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
"""Gives the number of the backward pass that runs in this thread; -1 outside of one."""


def after_backward(call: Callable[[], None]) -> None:
    """Call at the end of the backward pass that runs."""
    with suppress(AttributeError):
        torch.autograd.Variable._execution_engine.queue_callback(call)


def is_transforming() -> bool:
    """Return whether a function transform is at work, as ``torch.func.vmap``: in it tensors hold no
    numbers, and may neither be asked for any nor draw them."""
    with suppress(AttributeError):
        return torch._C._functorch.peek_interpreter_stack() is not None
    return False


def holds_numbers(tensor: Any) -> bool:
    """Return whether a tensor is real: neither fake nor of a function transform."""
    kind = sys.modules.get("torch._subclasses.fake_tensor")
    if kind is not None and isinstance(tensor, getattr(kind, "FakeTensor", ())):
        return False
    with suppress(AttributeError):
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return True


def is_wrapper(tensor: Any) -> bool:
    """Return whether a tensor is a wrapper of other tensors."""
    module = sys.modules.get("torch.utils._python_dispatch")
    return bool(getattr(module, "is_traceable_wrapper_subclass", bool)(tensor)) if module else False


def copy_all(into: Sequence[Any], tensors: Sequence[Any]) -> None:
    """Copy tensors into others of the same lengths, in as few kernels as possible."""
    together = getattr(torch, "_foreach_copy_", None)
    if together is not None:
        together(list(into), list(tensors))
        return
    for target, each in zip(into, tensors, strict=True):
        target.copy_(each)


def newest_function_mode() -> Any:
    """Return the TorchFunctionMode that was entered last, None without one, ``...`` if not
    known."""
    with suppress(AttributeError):
        size = torch._C._len_torch_function_stack()
        return torch._C._get_function_stack_at(size - 1) if size else None
    return ...


def compilations() -> int:
    """Return how often ``torch.compile`` has compiled something in this process."""
    known = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return sum(known.get("frames", {}).values())


def is_compiled_itself(module: Any) -> bool:
    """Return whether ``torch.compile`` or ``module.compile`` made a module."""
    return child(module, COMPILED_CHILD) is not None or bool(
        getattr(module, "_compiled_call_impl", None)
    )


def is_compiled_module(value: object) -> bool:
    """Return whether ``torch.compile`` made a module, by the name of its type: other modules may
    return any attribute that they are asked for.
    """
    return type(value).__name__ == "OptimizedModule"


def is_replica(module: Any) -> bool:
    """Return whether DataParallel made a module for one of its devices."""
    return getattr(module, "_is_replica", False)


def child(module: Any, name: str) -> Any:
    """Return a child of a module, or None. Does not ask the module, which may make up
    attributes."""
    children = getattr(module, "_modules", {})
    return children[name] if name in children else None  # noqa: SIM401 - a traced one has no dict


def plain_attributes(module: Any) -> Iterator[Any]:
    """Return the attributes of a module besides its children."""
    return (value for name, value in [*vars(module).items()] if name != "_modules")


def pre_hooks(module: Any) -> tuple[Any, ...]:
    """Return the forward pre-hooks of a module."""
    return (*getattr(module, "_forward_pre_hooks", {}).values(),)


def has_backward_hooks(module: Any) -> bool:
    """Return whether a module calls something in a backward pass."""
    return any(getattr(module, f"_backward_{each}", None) for each in ("hooks", "pre_hooks"))


def parts_of_schedule(schedule: Any) -> Sequence[Any]:
    """Return the schedulers inside a composed one, like SequentialLR."""
    return getattr(schedule, "_schedulers", ())


def phases_of_schedule(schedule: Any) -> Sequence[Any]:
    """Return the phases of OneCycleLR, each with its ``end_step``."""
    return getattr(schedule, "_schedule_phases", None) or ()
