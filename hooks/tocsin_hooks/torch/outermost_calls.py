"""The calls of a model, or of its parts, that no other one of these calls encloses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from weakref import ref

import torch

from tocsin_hooks.torch.callbacks import is_elsewhere
from tocsin_hooks.torch.idle import IdleSteps
from tocsin_hooks.torch.names import class_name, unwrapped
from tocsin_hooks.torch.root import ModuleHook


class Call(NamedTuple):
    """A call of a module. ``name`` is the class of the model, or the attribute of its part;
    ``first``: no other one came before it in the forward pass."""

    name: str
    args: Any
    kwargs: Any
    output: Any
    first: bool
    whole: bool


class OutermostCalls:
    """Calls ``called`` after each call of a model that is its own forward pass, or of its parts,
    and ``begins`` with its name, arguments and keywords before it; ``aside`` after one that is none
    of the training's.

    Many a script calls ``model.encoder(x)`` and not ``model(x)``. Parts are the modules in its
    attributes that have parameters.
    """

    def __init__(
        self,
        model: Any,
        called: Callable[[Call], None],
        aside: Callable[[], None] = lambda: None,
        begins: Callable[[str, Any, Any], None] = lambda name, args, kwargs: None,
        idle: IdleSteps | None = None,
    ) -> None:
        self._idle = idle
        self._called = called
        self._aside = aside
        self._begins = begins
        self._model = ref(model)
        self._depth = 0
        self._first = True
        self._handles: list[Any] = []
        self._watch(class_name(unwrapped(model)), model, whole=True)
        for name, part in parts_of(model):
            self._watch(name, part, whole=False)

    def begin(self) -> None:
        """A forward pass begins."""
        self._depth = 0
        self.begin_pass()

    def begin_pass(self) -> None:
        """The next call is the first one of a pass."""
        self._first = True

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _watch(self, name: str, module: Any, *, whole: bool) -> None:
        def begins(module: Any, args: Any, kwargs: Any) -> None:
            if is_elsewhere(module):
                return
            self._depth += 1
            if self._depth == 1 and not whole:
                self._begins(name, args, kwargs)
                self._depth = 1  # a step may have begun

        def ends(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            if is_elsewhere(module):
                return
            self._depth = max(0, self._depth - 1)
            if self._depth or output is None:
                return
            if self._is_aside():
                self._aside()
            else:
                first, self._first = self._first, False
                self._called(Call(name, args, kwargs, output, first, whole))

        before = ModuleHook(begins, None, before=True, idle=self._idle)
        after = ModuleHook(ends, None, before=False, idle=self._idle)
        self._handles += [
            module.register_forward_pre_hook(before, with_kwargs=True),
            module.register_forward_hook(after, with_kwargs=True, always_call=True),
        ]

    def _is_aside(self) -> bool:
        """Return whether a call is none of the training's: as of a teacher, without gradients."""
        model = self._model()
        return model is None or not (torch.is_grad_enabled() or evaluates(model))


def parts_of(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the modules in the attributes of a model, in lists and dicts as well, with their
    names."""
    for name, part in model.named_children():
        if isinstance(part, torch.nn.ModuleList | torch.nn.ModuleDict):
            yield from ((f"{name}.{of}", each) for of, each in parts_of(part))
        elif next(part.parameters(), None) is not None:
            yield name, part


def evaluates(model: Any) -> bool:
    """Return whether calls of parts belong to an evaluation: no gradients are computed, and of all
    that is trained nothing is in training mode. A script may set the parts and not the model."""
    if torch.is_grad_enabled():
        return False
    trained = (p for _, p in parts_of(model) if any(each.requires_grad for each in p.parameters()))
    return not (model.training and any(part.training for part in trained))


class EvaluatedParts:
    """Says of calls of parts in an evaluation with which a pass begins: the part that began the
    last one is called again, after all that is called in training."""

    def __init__(self) -> None:
        self._trained: set[str] = set()
        self._called: set[str] = set()
        self._first = ""

    def trained(self, name: str) -> None:
        """The part is called in training."""
        self._trained.add(name)
        self._first = ""

    def begins(self, name: str) -> bool:
        """Count a call of the part in an evaluation; whether a pass begins with it."""
        again = name == self._first and self._called >= self._trained
        begins = not self._first or again
        if begins:
            self._first, self._called = name, set()
        self._called.add(name)
        return begins
