"""A guard before each update: one with a loss or gradients that are not finite is skipped."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from tocsin.model import Mode, Role

from tocsin_hooks.looks import Name
from tocsin_hooks.torch.autograd import MUL
from tocsin_hooks.torch.capture.backward import innermost
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.gradients import parameters_of

_log = logging.getLogger("tocsin")
_LOST = "updates are not guarded"
_SKIPPED = (
    "%d of %d updates skipped to protect the weights: the loss or a gradient is not finite. Check "
    "the batch, and lower the learning rate if this continues"
)

SKIPPED = Name("updates/skipped", ("updates",), Role.UPDATES, "skipped")
ALL = Name("updates/all", ("updates",), Role.UPDATES, "all")


class UpdateGuard:
    """Skips the update of an optimizer where a number that it would apply is not finite.

    It takes the gradients away before ``step`` and gives them back after it: without gradients an
    optimizer changes neither weights nor its own state. Nothing else is changed, ever. What decides
    is all gradients of the optimizer, and the loss of the last backward pass. With loss scaling, or
    several processes that hold the whole model, gradients alone do: a scaled loss may overflow, and
    each process has its own loss but the same gradients. Where parameters are sharded, all ranks
    agree. Of a closure its first evaluation counts. An update that a GradScaler skips is not ours.
    """

    def __init__(self, step: CurrentStep, skipped: Callable[[bool], None]) -> None:
        self._step = step
        self._skipped = skipped
        self._watched = WeakKeyDictionary[Any, list[Any]]()  # handles, by optimizers
        self._loss: Any = None  # of the last backward pass, None if it does not decide
        self._judged = set[int]()  # identities of optimizers that had this loss
        self._taken: list[tuple[Any, Any]] = []  # parameters and their gradients
        self.updates = self.skips = 0

    def watch(self, root: Any, optimizer: Any) -> None:
        """Guard an optimizer of the model from now on, its update in hand included."""
        if optimizer in self._watched or torch.compiler.is_compiling():
            return
        groups = _groups_of(root)
        handles = [
            optimizer.register_step_pre_hook(partial(self._update_begins, groups)),
            optimizer.register_step_post_hook(self._update_ends),
        ]
        if groups or not _is_distributed():
            seen = partial(self._differentiated, threading.get_ident())
            seen.__torch_unserializable__ = True  # type: ignore[attr-defined]
            held = [each for each in parameters_of(optimizer) if each.requires_grad]
            handles += [each.register_hook(seen) for each in held[-1:]]
        self._watched[optimizer] = handles

    def close(self) -> None:
        """Guard nothing any more."""
        for handles in self._watched.values():
            while handles:
                handles.pop().remove()
        self._watched.clear()
        self._loss = None

    def capture(self) -> None:
        """Add the counts to a step that is saved."""
        if self._watched and self._step.mode is Mode.TRAIN:
            for name, number in self.counts():
                if plan := self._step.plan(name):
                    self._step.hook.capture(plan, number)

    def counts(self) -> list[tuple[Name, float]]:
        """Return the numbers of updates that are skipped, and of all."""
        return [(SKIPPED, float(self.skips)), (ALL, float(self.updates))]

    def _update_begins(self, groups: Iterable[Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Take the gradients away if they are not finite; returns a guarded closure, if any."""
        try:
            self._give_back()
            self.updates += 1
            if getattr(optimizer, "found_inf", None) is not None:
                return None  # a fused optimizer, which skips by itself
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            if not callable(closure):
                self._check(groups, optimizer)
                return None
            guarded = _FirstEvaluation(closure, partial(self._check, groups, optimizer))
            if "closure" in kwargs:
                return args, {**kwargs, "closure": guarded}
            return (args[0], guarded, *args[2:]), kwargs
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._failed(error)
            return None

    def _update_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            self._give_back()
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._failed(error)

    def _check(self, groups: Iterable[Any], optimizer: Any, value: Any = None) -> None:
        """Skip the update if a gradient, the last loss or the closure's ``value`` is not finite."""
        held = [each for each in parameters_of(optimizer) if each.grad is not None]
        with torch.no_grad():
            sizes = [size for each in held for size in _largest(each.grad)]
            sizes += [each.detach().abs() for each in self._losses(optimizer, value)]
            if _is_finite(sizes, groups, held):
                return
        self._taken = [(each, each.grad) for each in held]
        for each in held:
            each.grad = None
        self.skips += 1
        is_news = self.skips & (self.skips - 1) == 0  # the first, the second, the fourth …
        if is_news:
            _log.warning(_SKIPPED, self.skips, self.updates)
        self._skipped(is_news)

    def _losses(self, optimizer: Any, value: Any) -> list[Any]:
        """Return the losses that decide; none for the second time."""
        loss = None if id(optimizer) in self._judged else self._loss
        self._judged.add(id(optimizer))
        given = isinstance(value, torch.Tensor) and value.numel() == 1 and not _is_distributed()
        return [each for each in (loss, value if given else None) if each is not None]

    def _differentiated(self, thread: int, _: Any) -> None:
        """A gradient of a parameter is there, and its backward pass goes on."""
        try:
            here = threading.get_ident() == thread  # on a GPU, gradients come in another
            found = innermost(sys._getframe() if here else sys._current_frames().get(thread))
            self._loss = None
            self._judged.clear()
            if found is not None:
                node = found.loss.grad_fn
                scaled = node is not None and node.name() == MUL and found.scaler() is not None
                self._loss = None if scaled else found.loss.detach()
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._failed(error)

    def _give_back(self) -> None:
        while self._taken:
            parameter, gradient = self._taken.pop()
            if parameter.grad is None:
                parameter.grad = gradient

    def _failed(self, error: Exception) -> None:
        with suppress(Exception):  # a handler of the script's log may raise
            self._step.hook.trouble(_LOST, error)


class _FirstEvaluation:
    """A closure whose first evaluation is checked: it is that of the weights as they are."""

    def __init__(self, closure: Callable[[], Any], check: Callable[[Any], None]) -> None:
        self._closure = closure
        self._check: Callable[[Any], None] | None = check

    def __call__(self) -> Any:
        value = self._closure()
        if self._check is not None:
            check, self._check = self._check, None
            check(value)
        return value


def _largest(gradient: Any) -> list[Any]:
    """Return the largest magnitude of a gradient: a norm of another order may overflow."""
    found = gradient.detach()
    if hasattr(found, "to_local"):
        found = found.to_local()
    if found.layout is not torch.strided:
        found = found.coalesce().values() if found.is_sparse else found.to_dense()
    return [torch.linalg.vector_norm(found, float("inf"))] if found.numel() else []


def _is_finite(sizes: list[Any], groups: Iterable[Any], held: list[Any]) -> bool:
    """Return whether all numbers are finite, on every rank of the groups."""
    device = held[0].device if held else torch.device("cpu")
    flags = [torch.isfinite(each).all().to(device) for each in sizes]
    lost = (
        torch.zeros((), dtype=torch.int32, device=device)
        if not flags
        else (~torch.stack(flags).all()).int()
    )
    for group in groups:
        torch.distributed.all_reduce(lost, torch.distributed.ReduceOp.MAX, group=group)
    return not lost.item()


def _is_distributed() -> bool:
    """Return whether several processes train together."""
    found = torch.distributed
    return bool(found.is_available() and found.is_initialized() and found.get_world_size() > 1)


def _groups_of(root: Any) -> list[Any]:
    """Return the groups of ranks over which the parameters of a model are sharded: of each
    dimension of the mesh of a DTensor, and of FullyShardedDataParallel."""
    if not _is_distributed():
        return []
    found: list[Any] = []
    for module in root.modules():
        own = type(module).__name__ == "FullyShardedDataParallel"
        found += [group for group in (getattr(module, "process_group", None),) if own and group]
    for parameter in root.parameters():
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None:
            found += [mesh.get_group(dimension) for dimension in range(mesh.ndim)]
    return [*dict.fromkeys(found)]
