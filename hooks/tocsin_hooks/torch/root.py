"""Hooks on a model, and on modules that wrap it later."""

from __future__ import annotations

import gc
import string
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakSet, ref

import torch
from torch.nn.modules.module import register_module_module_registration_hook

from tocsin_hooks.torch.autograd import is_compiled_module, pre_hooks
from tocsin_hooks.torch.idle import IdleSteps
from tocsin_hooks.torch.names import wrappers, wraps

Callback = Callable[..., None]

_BEFORE = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs")
_AFTER = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
_REDUCE = "__reduce_ex__"


class ModelHooks:
    """Calls ``before(module, args, kwargs)`` and ``after(module, args, kwargs, output)`` at each
    forward pass of a model, and of every wrapper that it gets later: DataParallel,
    DistributedDataParallel, ``torch.compile``. Also where the forward pass raises ``after`` is
    called, with the output None. ``owner`` is what keeps the model as a watched one.
    """

    def __init__(
        self, model: Any, owner: object, before: Callback, after: Callback, idle: IdleSteps
    ) -> None:
        self._before = ModuleHook(before, owner, before=True, idle=idle)
        self._after = ModuleHook(after, owner, before=False, idle=idle)
        self._watched = WeakSet[Any]()
        self._searched = False
        self._handles = [register_module_module_registration_hook(self._registered)]
        for each in wrappers(model):
            self._watch(each)

    def find_compiled(self) -> bool:
        """Return whether ``torch.compile`` made another module of the model, even before it was
        given to us. That is watched, too.
        """
        if not self._searched:
            self._searched = True
            for each in gc.get_objects():
                if is_compiled_module(each) and any(
                    inner in self._watched for inner in wrappers(each)
                ):
                    self._watch(each)
        return any(is_compiled_module(each) for each in self._watched)

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()
        for part in (part for each in self._watched for part in each.modules()):
            for name in (*_BEFORE, *_AFTER):
                getattr(vars(part).get(name), "__dict__", {}).pop(_REDUCE, None)

    def _watch(self, module: Any) -> None:
        if module in self._watched:
            return
        self._watched.add(module)
        for part in module.modules():
            _leave_out(part)
        self._handles += [
            module.register_forward_pre_hook(self._before, with_kwargs=True),
            module.register_forward_hook(self._after, with_kwargs=True, always_call=True),
        ]

    def _registered(self, parent: Any, name: str, child: Any) -> None:
        if child in self._watched and wraps(parent, name):
            self._watch(parent)


def _leave_out(module: Any) -> None:
    """Leave our hooks out of copies and pickles of a module: ``torch.load`` may refuse them."""
    for names in (_BEFORE, _AFTER):
        found = [each for name in names if type(each := vars(module).get(name)) is OrderedDict]
        for each in found:
            vars(each)[_REDUCE] = partial(_others, ref(found[0]), ref(each))


def _others(hooks: ref[Any], of: ref[Any], _: int) -> tuple[Any, ...]:
    """Reduce a dictionary to the entries of ``hooks`` that are not ours."""
    known, found = hooks() or {}, of() or {}
    kept = [(key, each) for key, each in found.items() if type(known.get(key)) is not ModuleHook]
    return OrderedDict, (), None, None, iter(kept)


class ModuleHook:
    """An entry of a module's dictionary of hooks.

    A copy of a module is not watched, and a pickled one is read where we are not installed: one of
    a module that was added later is a method of the standard library that takes as many arguments
    and does nothing. With ``idle`` it does nothing in steps that need nothing, either.
    """

    def __init__(
        self, callback: Callback, owner: object, *, before: bool, idle: IdleSteps | None = None
    ) -> None:
        self._callback = callback
        self._before = before
        self._idle = idle
        self.owner = owner

    def __call__(self, module: Any, *arguments: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._idle is not None:
            try:
                if self._idle.skips(self, module):
                    return
            except Exception as error:  # noqa: BLE001 - a training must not end by this
                self._idle.failed(error)
        self._callback(module, *arguments)

    def repeat(self, module: Any, samples: int) -> None:
        """Handle a call that was skipped, of so many samples. Its output is gone."""
        given = (torch.empty(samples, device="meta"),) if samples else ()
        self._callback(module, given, {}, *(() if self._before else (None,)))

    def __reduce__(self) -> tuple[Any, ...]:
        of = string.Formatter() if self._before else string.Formatter  # three arguments or four
        return getattr, (of, "check_unused_args")


def owners(model: Any) -> list[Any]:
    """Return the hooks that watch a model already."""
    hooks = pre_hooks(model)
    known = (hook.owner for hook in hooks if isinstance(hook, ModuleHook))
    return [owner for owner in known if owner is not None]
