"""The hook for PyTorch, and its methods for training scripts."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from tocsin.model import Role
from tocsin.tensors import Storage

from tocsin_hooks import Hook, Stats
from tocsin_hooks.ending import finished_after
from tocsin_hooks.guard import Guard, guarded, log_error
from tocsin_hooks.looks import Name
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.custom.check import Check, load_checks
from tocsin_hooks.torch.names import unwrapped
from tocsin_hooks.torch.root import owners
from tocsin_hooks.torch.training import ModelTraining
from tocsin_hooks.torch.workers import worker_options

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger("tocsin")
_LOST = "tensor %.200r is not captured"
_AROUND = 1e-5  # seconds that PyTorch takes to call us: with them the meter says what is added
_guarded = guarded(attrgetter("hook.trouble"), "%s failed")


class TorchHook:
    """Captures the training of a PyTorch model. ``attach`` makes one.

    A forward pass of the model in training begins a step, unless it is a further micro-batch of the
    last one (accumulated gradients). Forward passes in evaluation mode, or without gradients
    (``torch.no_grad``), belong to a step of mode EVAL. In saved steps, the hook captures the
    tensors that rules and the configuration need: losses with their predictions and labels;
    weights, biases, gradients and learning rates as the optimizer gets them; inputs and outputs of
    activations and of the model. The class Hook describes where they are written, and its
    guarantees.

    ``detach`` ends the capture and leaves no trace in the model or in PyTorch; ``close`` also ends
    the run. The model keeps its hook alive; when the model is deleted, the capture ends.

    Example
    -------
    >>> hook = TorchHook.attach(model, "s3://bucket/jobs/j1")
    >>> for images, labels in batches:
    ...     optimizer.zero_grad()
    ...     criterion(model(images), labels).backward()
    ...     optimizer.step()
    >>> hook.close()
    """

    def __init__(
        self,
        model: Any,
        hook: Hook,
        *,
        losses: Iterable[Any] = (),
        accumulate: int | None = None,
        raise_on_stop: bool = False,
        checks: Iterable[Check] = (),
        guard: bool = False,
        owned: bool = True,
    ) -> None:
        self.hook = hook
        hook.measured().around = _AROUND
        self._owned = owned
        self._step = CurrentStep(hook)
        self._release: Callable[[], None] = _nothing
        self.training: ModelTraining | None = None  # none if the model cannot be captured
        name = type(model).__name__
        with Guard(hook.trouble, "%s is not captured", name):
            training = ModelTraining(
                self._step, losses, accumulate, raise_on_stop=raise_on_stop, guard=guard
            )
            if checks:
                training.add_checks(checks)
            self._release = training.watch(model, self, partial(_ended, hook, name, owned=owned))
            self.training = training

    @classmethod
    def attach(
        cls,
        model: Any,
        out: str | Path | Storage | Hook | None = None,
        *,
        loss: Any = None,
        accumulate: int | None = None,
        raise_on_stop: bool = False,
        checks: str | Path | Check | Iterable[Any] = (),
        guard: bool = False,
        **options: Any,
    ) -> TorchHook:
        """Capture the training of ``model`` from now on. A hook that it has already is closed.

        Attach it after ``init_process_group`` where there are several processes; before or after
        DistributedDataParallel and ``torch.compile`` are wrapped round it.

        Parameters
        ----------
        model: a ``torch.nn.Module``.
        out: the run: a folder, ``s3://bucket/prefix``, or a Storage. None: where SageMaker's
            ``debughookconfig.json`` says, else what ``TOCSIN_RUN`` says. A Hook is used as it
            is, and not closed.
        loss: a module, or several, that count as losses, besides those whose class is one of
            ``torch.nn``'s losses or is named so (``…Loss``, ``…Criterion``).
        accumulate: forward passes of one step; None: it is found out.
        raise_on_stop: raise TrainingStopped where a step would begin when somebody has asked for
            a stop.
        checks: checks of your own, made by ``check``: a file or a folder of them, the name of a
            module, or a list. Raises BadCheck for what cannot be loaded.
        guard: skip each update whose loss or gradients are not finite, and count it; so does
            ``guard: true`` in the watch file. It never does anything else to the training.
        options: of Hook: ``watch``, ``save_interval``, ``worker`` … The worker is by default this
            process's rank.
        """
        custom = load_checks(checks) if checks else ()
        with Guard(log_error, "an earlier hook is not closed"):
            if isinstance(model, torch.nn.Module):
                for earlier in owners(unwrapped(model)):
                    earlier.close()  # with the current step, before the run is another's
        owned = not isinstance(out, Hook)
        hook = out if isinstance(out, Hook) else Hook(out, **_with_worker(options))
        named = (loss,) if isinstance(loss, torch.nn.Module) else loss or ()
        if not isinstance(named, Iterable):
            error = TypeError(
                "it is not a module: record the result of a function with record_loss"
            )
            hook.trouble(f"loss={loss!r:.100} is not watched", error)
            named = ()
        return cls(
            model,
            hook,
            losses=named,
            accumulate=accumulate,
            raise_on_stop=raise_on_stop,
            checks=custom,
            guard=guard,
            owned=owned,
        )

    def record_loss(self, loss: Any, name: str = "loss") -> Any:
        """Save a loss that a function computed, and return it.

        Of several in one step, by micro-batches, the mean is saved.

        >>> hook.record_loss(F.cross_entropy(model(images), labels)).backward()
        """
        if not isinstance(loss, torch.Tensor):
            self.hook.save(name, loss, "losses", role=Role.LOSS)
        elif self.hook.saving and not torch.compiler.is_compiling():
            with Guard(self.hook.trouble, _LOST, name), self.hook.measured():
                self._step.add_loss(Name(name, ("losses",), Role.LOSS, None), loss)
                if self.training is not None:
                    self.training.loss.recorded(loss, name)
        return loss

    def save(
        self,
        name: str,
        value: object,
        collection: str | None = None,
        *,
        role: Role | None = None,
        kind: str | None = None,
        raw: bool | None = None,
    ) -> None:
        """Save a tensor of the current step, as it is now. See ``Hook.save``."""
        plan = self.hook.plan(name, collection, role=role, kind=kind, raw=raw, asked=True)
        if plan is None:
            # Steps that are not due may go by without being begun: `between` is for us to say.
            first = not any(self.hook.counters.values())
            self.hook.keep(name, value, collection, role=role, kind=kind, raw=raw, between=first)
            return
        if not isinstance(value, torch.Tensor):
            self.hook.capture(plan, value)
            return
        with Guard(self.hook.trouble, _LOST, name), self.hook.measured():
            self._step.is_meant = True
            self._step.add([(plan, value)])

    def data(self, loader: Iterable[Any]) -> Iterable[Any]:
        """Return the batches of a loader, with the waits for them timed. See ``Hook.data``."""
        return self.hook.data(loader)

    @property
    def should_stop(self) -> bool:
        """Return whether somebody asked for a stop. See ``Hook.should_stop``."""
        return self.hook.should_stop

    def stop_on_sigterm(self) -> None:
        """From now on SIGTERM makes ``should_stop`` true. See ``Hook.stop_on_sigterm``."""
        self.hook.stop_on_sigterm()

    @property
    def position(self) -> dict[str, int]:
        """Steps begun so far: for a checkpoint, as JSON. See ``Hook.position``."""
        return self.hook.position

    def checkpoint(self, path: str | Path) -> None:
        """See ``Hook.checkpoint``."""
        self.hook.checkpoint(path)

    @property
    def stats(self) -> Stats:
        return self.hook.stats

    @_guarded
    def detach(self) -> None:
        """End the capture; the run stays open. Later calls do nothing."""
        release, self._release = self._release, _nothing
        release()

    @_guarded
    def close(self, *, finished: bool | None = None, timeout: float = 60.0) -> None:
        """End the capture and, unless the Hook was given, the run. See ``Hook.close``."""
        self.detach()
        if self._owned:
            self.hook.close(finished=finished, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(finished=finished_after(error))


def _with_worker(options: dict[str, Any]) -> dict[str, Any]:
    """Add the worker of the environment to the options. If the script sets ``worker`` or
    ``num_workers``, add only the ``run_id``.
    """
    own: dict[str, Any] = {}
    with Guard(log_error, "cannot tell which of several workers this is"):
        own = worker_options(os.environ)
    if not {"worker", "num_workers"}.isdisjoint(options):
        own = {key: value for key, value in own.items() if key == "run_id"}
    return own | options


def _nothing() -> None: ...


def _ended(hook: Hook, model: str, *, owned: bool) -> None:
    """The model is gone, and its training over. This may be the garbage collector's thread."""
    if not any(hook.position.values()):
        _log.warning(
            "nothing was captured: the %s was deleted before its first step. Keep the model that "
            "you pass to TorchHook.attach in a variable, and train it",
            model,
        )
    if owned:
        hook.leave()
