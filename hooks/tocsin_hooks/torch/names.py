"""The names of a model's tensors, as smdebug's users know them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import torch
from tocsin.model import IGNORE_INDEX, WEIGHTED, Role
from tocsin.tensors import named
from torch import nn

from tocsin_hooks.looks import SAMPLES, Name
from tocsin_hooks.torch.autograd import (
    COMPILED_CHILD,
    LOSS,
    WRAPPER_CHILDREN,
    child,
    is_compiled_itself,
)

_OWN_COLLECTION = frozenset({"relu", "tanh", "sigmoid", "softmax", "gelu"})
_LOSS = re.compile(r"(?:loss|criterion)\d*$", re.IGNORECASE)
_LABELS = re.compile(r"(?:labels?|targets?)$", re.IGNORECASE)
_WEIGHTS = ("weight", "pos_weight")  # arguments of losses

_KINDS: dict[Any, str] = {
    nn.ReLU: "relu",
    nn.ReLU6: "relu",
    nn.LeakyReLU: "leakyrelu",
    nn.PReLU: "prelu",
    nn.RReLU: "rrelu",
    nn.ELU: "elu",
    nn.SELU: "selu",
    nn.CELU: "celu",
    nn.GELU: "gelu",
    nn.SiLU: "silu",
    nn.Mish: "mish",
    nn.Hardswish: "hardswish",
    nn.Sigmoid: "sigmoid",
    nn.LogSigmoid: "logsigmoid",
    nn.Hardsigmoid: "hardsigmoid",
    nn.Tanh: "tanh",
    nn.Hardtanh: "hardtanh",
    nn.Softmax: "softmax",
    nn.Softmax2d: "softmax",
    nn.LogSoftmax: "logsoftmax",
    nn.Softplus: "softplus",
}
# Classes of other libraries, known by their names: GELUActivation, QuickGELU, SiLUActivation …
_NAMED_KIND = re.compile(
    r"(?:new|quick|fast|accurate|clipped|pytorch)?(?P<kind>gelu|silu|swish|relu|tanh|sigmoid)\w{0,16}"
)


def tensor_names(model: Any) -> Iterator[Name]:
    """Yield all tensors that the hook can capture of a model, in the order of its parameters and
    modules.

    What is captured of it depends on the rules. Of inputs and outputs only the first of a module
    is listed; losses outside of the model are not.

    Example:
        >>> [each.name for each in tensor_names(nn.Linear(2, 1))][:2]
        ['Linear_weight', 'Linear_bias']
    """
    root = unwrapped(model)
    own = class_name(root)
    for path, parameter in root.named_parameters():
        name = parameter_name(own, path)
        yield name
        if parameter.requires_grad:
            yield gradient_name(name)
    yield input_name(own, "0")
    for path, module in submodules(root):
        if is_loss(module):
            yield from loss_names(module)
        else:
            yield module_name(path, "input", 0, kind_of(module))
            yield module_name(path, "output", 0, kind_of(module))
    output = output_name(own, "0")
    yield from (output, spread_name(output), SAMPLES)


def class_name(model: Any) -> str:
    """Return the name of a model's class, which ``fully_shard`` replaces by another one."""
    bases = type(model).__bases__
    sharded = len(bases) == 2 and bases[0].__name__ == "FSDPModule"
    return (bases[1] if sharded else type(model)).__name__


@lru_cache(maxsize=1 << 14)
def parameter_name(model: str, path: str) -> Name:
    name = f"{model}_{plain(path)}"
    is_bias = "bias" in re.split(r"[._]", path.rpartition(".")[2])
    found = named(name)
    if found is None or found[0] not in (Role.WEIGHT, Role.BIAS):
        found = Role.BIAS if is_bias else Role.WEIGHT, None
    return Name(name, ("biases" if found[0] is Role.BIAS else "weights",), found[0], None)


def gradient_name(parameter: Name) -> Name:
    return Name(f"gradient/{parameter.name}", ("gradients",), Role.GRADIENT, None)


def input_name(model: str, label: str) -> Name:
    """``label`` is the place of an argument, or its keyword."""
    name = f"{model}_input_{label}"
    if _LABELS.search(label):
        return Name(name, ("labels",), Role.LABEL, None)
    return Name(name, ("inputs",), Role.INPUT, None)


def output_name(model: str, label: str) -> Name:
    return Name(f"{model}_output_{label}", ("outputs",), Role.PREDICTION, None)


def spread_name(output: Name) -> Name:
    return Name(f"spread/{output.name}", ("spreads",), Role.SPREAD, None)


def is_as_a_class(path: str) -> bool:
    """Return whether what goes into a part, and comes out of it, would be named as that of a whole
    model, which has the name of its class: ``W`` in a cell."""
    return path[:1].isupper() and path.isalnum()


@lru_cache(maxsize=1 << 14)
def module_name(path: str, end: str, label: object, kind: str | None, call: int = 0) -> Name:
    """Names a module's input or output (``end``), in its first or a later ``call`` of a pass."""
    name = f"{path}_{end}_{label}" + (f"_{call}" if call else "")
    if kind is None:
        return Name(name, (), None, None)
    role = Role.ACTIVATION_INPUT if end == "input" else Role.ACTIVATION_OUTPUT
    own = (f"{kind}_{end}",) if kind in _OWN_COLLECTION else ()
    return Name(name, (*own, f"activation_{end}s"), role, kind)


def loss_name(module: Any, label: str, call: int = 0) -> Name:
    name = f"{type(module).__name__}_output_{label}" + (f"_{call}" if call else "")
    return Name(name, ("losses",), Role.LOSS, None)


def operand_names(module: Any, call: int = 0) -> tuple[Name | None, Name | None]:
    """Return the names of what a loss compares: predictions and labels, unless it does something
    else."""
    if not isinstance(module, LOSS):
        return None, None
    own = type(module).__name__
    shown = own if _LOSS.search(own) else f"{own}Loss"
    known = (named(f"{shown}_input_{place}") for place in (0, 1))
    given = {each: getattr(module, each, None) for each in ("ignore_index", *_WEIGHTS)}
    predictions, labels = (
        name if role is not None else None
        for name, role in zip(compared_names(own, given, call), known, strict=True)
    )
    return predictions, labels


def compared_names(loss: str, given: Mapping[str, Any], call: int = 0) -> tuple[Name, Name]:
    """Return the names of predictions and labels that a loss compares, by a module or a function
    with these arguments."""
    again = f"_{call}" if call else ""
    return (
        Name(f"{loss}_input_0{again}", ("predictions",), Role.PREDICTION, None),
        Name(f"{loss}_input_1{again}", ("labels",), Role.LABEL, _kind_of_labels(given)),
    )


def _kind_of_labels(given: Mapping[str, Any]) -> str | None:
    ignored = given.get("ignore_index")
    weighted = any(given.get(each) is not None for each in _WEIGHTS)
    ignores = isinstance(ignored, int) and ignored >= 0
    parts = [WEIGHTED] * weighted + [f"{IGNORE_INDEX}{ignored}"] * ignores
    return " ".join(parts) or None


def loss_names(module: Any) -> Iterable[Name]:
    return (loss_name(module, "0"), *(name for name in operand_names(module) if name is not None))


def kind_of(module: Any) -> str | None:
    """Return which activation a module is: by its type, or of others' modules by their name."""
    for each in type(module).__mro__:
        if kind := _KINDS.get(each):
            return kind
    if any(True for _ in (*module.children(), *module.parameters(recurse=False))):
        return None
    found = _NAMED_KIND.fullmatch(type(module).__name__.lower())
    return found["kind"].replace("swish", "silu") if found else None


def is_loss(module: Any) -> bool:
    return isinstance(module, LOSS) or _LOSS.search(type(module).__name__) is not None


def plain(path: str) -> str:
    """Return a path in a model without what wrappers insert."""
    if not any(wrapper in path for wrapper in WRAPPER_CHILDREN):
        return path
    return ".".join(part for part in path.split(".") if part not in WRAPPER_CHILDREN)


def unwrapped(model: Any) -> Any:
    """Return the model inside DataParallel, DistributedDataParallel and ``torch.compile``."""
    return wrappers(model)[-1]


def wrappers(model: Any) -> list[Any]:
    """Return the model and the models that it wraps, from the outside in."""
    chain = [model]
    while (inner := _inner(chain[-1])) is not None:
        chain.append(inner)
    return chain


def is_compiled(model: Any) -> bool:
    """Return whether ``torch.compile`` made it, or something that it wraps."""
    return any(map(is_compiled_itself, wrappers(model)))


def wraps(parent: Any, name: str) -> bool:
    """Return whether a module that takes another as its child ``name`` is a wrapper."""
    return name == COMPILED_CHILD or (name == "module" and isinstance(parent, _PARALLEL))


def submodules(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield all modules inside of a model, each once; what is compiled is one module."""
    for path, module in root.named_modules():
        hidden = COMPILED_CHILD in path.split(".") or isinstance(module, torch.jit.ScriptModule)
        if path and not hidden:
            yield plain(path), module


_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def _inner(model: Any) -> Any:
    if isinstance(model, _PARALLEL):
        return model.module
    return child(model, COMPILED_CHILD)
