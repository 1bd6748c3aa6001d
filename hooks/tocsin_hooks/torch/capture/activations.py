"""Inputs and outputs of the modules inside a model."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any

from tocsin_hooks.guard import guarded
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.names import is_as_a_class, is_loss, kind_of, module_name, submodules
from tocsin_hooks.torch.root import ModuleHook
from tocsin_hooks.torch.values import tensors_in

_MOST_TENSORS = 8  # of one input or output
_MOST_CALLS = 8  # of one module in one forward pass: a cell of a recurrent network has many

_trouble = attrgetter("_step.hook.trouble")


class Activations:
    """Captures them during one forward pass of the model, with hooks that are removed after it.

    So what is recomputed later (activation checkpointing) does not count twice. Of the replicas
    that DataParallel makes of a module one counts, the first.
    """

    def __init__(self, step: CurrentStep) -> None:
        self._step = step
        self._handles: list[Any] = []
        self._calls: dict[tuple[str, str], int] = {}
        self._counted: dict[tuple[str, str], int] = {}
        self._wanted: dict[tuple[str, str], bool] = {}
        self._generation = -1

    def open(self, root: Any) -> None:
        self.close()
        self._calls.clear()
        self._counted.clear()
        for path, module in submodules(root):
            if is_loss(module):
                continue
            kind = kind_of(module)
            if self.wants(path, "input", kind):
                called = ModuleHook(partial(self._called, path, kind), None, before=True)
                handle = module.register_forward_pre_hook(called, with_kwargs=True)
                self._handles.append(handle)
            if self.wants(path, "output", kind):
                called = ModuleHook(partial(self._called, path, kind), None, before=False)
                handle = module.register_forward_hook(called, with_kwargs=True)
                self._handles.append(handle)

    def close(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def wants(self, path: str, end: str, kind: str | None) -> bool:
        """Return whether rules or the configuration ask for a module's first input or output."""
        hook = self._step.hook
        if self._generation != hook.generation:
            self._generation = hook.generation
            self._wanted.clear()
        if (path, end) not in self._wanted:
            name = module_name(path, end, 0, kind)
            self._wanted[path, end] = not (kind is None and is_as_a_class(path)) and hook.wants(
                name.name, name.collections or None, role=name.role, kind=name.kind
            )
        return self._wanted[path, end]

    @guarded(_trouble, lambda self, path, *_: f"module {path!r:.200} is not captured")
    def _called(
        self, path: str, kind: str | None, module: Any, args: Any, kwargs: Any, *output: Any
    ) -> None:
        with self._step.hook.measured():
            end, value = ("output", output[0]) if output else ("input", (args, kwargs))
            if self._counted.setdefault((path, end), id(module)) != id(module):
                return
            call = self._calls.get((path, end), 0)
            self._calls[path, end] = call + 1
            if call < _MOST_CALLS:
                most = _MOST_TENSORS if kind is None else 1
                self._step.add_named(
                    [
                        (module_name(path, end, label, kind, call), tensor)
                        for label, tensor in tensors_in(value, most)
                    ]
                )
