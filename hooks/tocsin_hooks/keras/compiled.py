"""Observes the batches of a model with compiled steps: JAX and TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any

import keras

from tocsin_hooks.guard import Guard, Report
from tocsin_hooks.keras.batches import ARGUMENTS, WEIGHTS, Given, Listener

_KEY = "tocsin/batch"
_STEPS = ("train_function", "test_function")
_WIDEST = 1 << 14  # elements of a sample: of more, copies would cost
_UNKNOWN = 256  # in place of a length that the compiler does not know


class CompiledWatch:
    """Lets the steps of a model give their batch among their logs, and takes it out of these.

    A compiled step gives only what it returns. ``compute_metrics`` is the last that Keras calls in
    it, and returns the logs; what is added to them stays on its device. The steps that Keras makes
    meanwhile keep giving it, so they keep what takes it out, and are not made again.
    """

    def __init__(self) -> None:
        self._model: Any = None
        self._own: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._listener: Callable[[Given], None] | None = None

    def prepare(self, model: Any, trouble: Report) -> None:
        self.end()
        if not _is_seen(model):
            return
        self._model = model
        self._replace("compute_metrics", _with_batch(model.compute_metrics, trouble))
        for kind in ("train", "test"):
            name = f"{kind}_function"
            if not isinstance(getattr(model, name, None), _Step):
                vars(model)[name] = None  # one that was made without a hook is made again
            self._replace(f"make_{name}", self._making(name, trouble))

    def begin(self, model: Any, trouble: Report, listener: Listener) -> None:
        if model is self._model:
            self._listener = functools.partial(listener, model)
            for name in _STEPS:
                self._take_up(name, trouble)

    def end(self) -> None:
        self._listener = None
        if self._model is None:
            return
        for name in _STEPS:
            if isinstance(step := getattr(self._model, name, None), _Step):
                step.listener = None
        for name, own in self._own.items():
            if vars(self._model).get(name) is own:
                del vars(self._model)[name]
                if name in self._before:
                    vars(self._model)[name] = self._before[name]
        self._model, self._own, self._before = None, {}, {}

    def _replace(self, name: str, own: Callable[..., Any]) -> None:
        """Replace an attribute of the model without Keras' tracking."""
        known = vars(self._model)
        if name in known:
            self._before[name] = known[name]  # the script's own
        self._own[name] = known[name] = own

    def _making(self, name: str, trouble: Report) -> Callable[..., Any]:
        make = getattr(self._model, f"make_{name}")

        @functools.wraps(make)
        def made(*args: Any, **kwargs: Any) -> Any:
            found = make(*args, **kwargs)
            with Guard(trouble, "batches of Keras are not captured"):
                self._take_up(name, trouble)
            return found

        return made

    def _take_up(self, name: str, trouble: Report) -> None:
        step = getattr(self._model, name, None)
        if step is None:
            return
        if not isinstance(step, _Step):
            step = vars(self._model)[name] = _Step(step, trouble, trains=name == _STEPS[0])
        step.listener = self._listener


class _Step:
    """A step of Keras, without the batch in its result."""

    def __init__(self, made: Callable[..., Any], trouble: Report, *, trains: bool) -> None:
        self._made = made
        self._trouble = trouble
        self._trains = trains
        self.listener: Callable[[Given], None] | None = None

    def __call__(self, *args: Any) -> Any:
        found = self._made(*args)
        logs = found[0] if isinstance(found, tuple) else found  # with JAX the state as well
        batch = logs.pop(_KEY, None) if isinstance(logs, dict) else None
        if batch is not None and self.listener is not None:
            with Guard(self._trouble, "a batch of Keras is not captured"):
                self.listener({**batch, "training": self._trains})
        return found


def _with_batch(compute: Callable[..., Any], trouble: Report) -> Callable[..., Any]:
    @functools.wraps(compute)
    def compute_metrics(*args: Any, **kwargs: Any) -> Any:
        logs = compute(*args, **kwargs)
        with Guard(trouble, "batches of Keras are not captured"):
            given = {**dict(zip((*ARGUMENTS, WEIGHTS), args, strict=False)), **kwargs}
            known = (name for name in (*ARGUMENTS, WEIGHTS) if _is_small(given.get(name)))
            batch = {name: _plain(given[name]) for name in known}
            if batch and isinstance(logs, dict):
                return {**logs, _KEY: batch}
        return logs

    return compute_metrics


def _is_seen(model: Any) -> bool:
    """Return whether a step is one batch, on one device, and Keras' own: others may do anything
    with their logs."""
    steps = (getattr(model, name, None) for name in ("train_step", "test_step"))
    if not all(str(getattr(each, "__module__", "")).startswith("keras.") for each in steps):
        return False
    strategy = getattr(model, "distribute_strategy", None)
    alone = strategy is None or strategy.num_replicas_in_sync == 1
    one = getattr(model, "steps_per_execution", 1) == 1
    return one and alone and keras.distribution.distribution() is None


def _plain(value: Any) -> Any:
    """With tuples for lists, which TensorFlow would make into one tensor."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _is_small(value: Any) -> bool:
    leaves = keras.tree.flatten(value)
    return bool(leaves) and all(map(_is_dense, leaves)) and sum(map(_width, leaves)) <= _WIDEST


def _is_dense(leaf: Any) -> bool:
    """Return whether it is a tensor of numbers with samples, and not a sparse or ragged one."""
    if not keras.ops.is_tensor(leaf) or hasattr(leaf, "values") or hasattr(leaf, "indices"):
        return False
    return len(leaf.shape) > 0 and keras.backend.standardize_dtype(leaf.dtype) != "string"


def _width(leaf: Any) -> int:
    return prod(_UNKNOWN if each is None else each for each in leaf.shape[1:])
