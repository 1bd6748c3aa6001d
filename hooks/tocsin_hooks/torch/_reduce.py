"""Tensors reduced where they are."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import torch
from tocsin.model import Mode
from tocsin.tensors import Captured

from tocsin_hooks._capture import capture, check_name
from tocsin_hooks._memory import Memory
from tocsin_hooks._plan import Plan
from tocsin_hooks.torch._group import Group, Member, travels
from tocsin_hooks.torch._plain import plain
from tocsin_hooks.torch._transfer import Finish, Parcel, Reduced, gathered
from tocsin_hooks.torch._updates import Samples

__all__ = ["Reduced", "Reducer", "gathered"]

_log = logging.getLogger("tocsin")

Trouble = Callable[[str, Exception], None]


def _warn(what: str, error: Exception) -> None:
    _log.warning("%s: %s", what, error)


class Reducer:
    """Reduces tensors as they are now: on the host with the hook's own code, on a GPU there.

    On a GPU it only enqueues work, on the current stream, and waits for nothing. Values that are
    kept travel to the host and are summarised there; so do the few whose numbers need all values.
    Accelerators of other kinds have their tensors copied to the host at once.

    What cannot be reduced is left out and told to ``trouble``; tensors without numbers (of the
    meta device, fake, not yet initialised) and those of a CUDA graph in capture are left out in
    silence. ``device`` has tensors of the host reduced as those of a GPU are.

    Example
    -------
    >>> reducer = Reducer(hook.trouble)
    >>> reduced = gathered([reducer.reduce([(plan, layer.weight)])])
    >>> hook.put_later(reduced.finish, reduced.nbytes)
    """

    def __init__(self, trouble: Trouble = _warn, *, device: bool = False) -> None:
        self._trouble = trouble
        self._device = device
        self._memory = Memory()
        self._memory_of_travellers = Memory()  # of another thread: the one that finishes
        self._samples = Samples()
        self.synchronisations = 0
        """How often the host has waited for a device."""

    def reduce(self, tensors: Sequence[tuple[Plan, Any]], mode: Mode = Mode.TRAIN) -> Reduced:
        """Reduce tensors of a step of ``mode``; updates are told from the mode's last save."""
        reduced = Reduced(waited=self._wait)
        there: dict[Any, list[Member]] = {}
        with torch.no_grad():
            for plan, tensor in tensors:
                with self._guarded(_lost(plan)):
                    check_name(plan.saved)
                    member = _member(plan, tensor, mode)
                    if member is not None and (self._device or member.tensor.is_cuda):
                        there.setdefault(member.tensor.device, []).append(member)
                    elif member is not None:
                        self._on_host(member, reduced)
            for device, members in there.items():
                with self._guarded(f"{len(members)} tensors are not captured"):
                    self._on_device(device, members, reduced)
        return reduced

    def _on_host(self, member: Member, reduced: Reduced) -> None:
        tensor = member.tensor
        if tensor.device.type != "cpu":
            self._wait()
            tensor = tensor.cpu()
        since = partial(self._memory.update, member.key)
        found = [(member.plan, each) for each in capture(member.plan, tensor, since)]
        reduced.nbytes += sum(_nbytes(each) for _, each in found)
        reduced.finishes.append(lambda: found)

    def _on_device(self, device: Any, members: Sequence[Member], reduced: Reduced) -> None:
        parcel, now = Parcel(device), time.time()
        finishes: list[Finish] = []
        groups: dict[Any, list[Member]] = {}
        for member in members:
            if travels(member):
                finish = self._travelling(member, parcel, now)
                finishes.append(partial(self._finished, _lost(member.plan), finish))
            else:
                groups.setdefault(member.tensor.dtype, []).append(member)
        for group in groups.values():
            what = f"{len(group)} tensors are not captured"
            with self._guarded(what):
                finish = Group(group, parcel, self._samples, now).finish
                finishes.append(partial(self._finished, what, finish))
        parcel.seal()
        reduced.finishes += finishes
        reduced.parcels.append(parcel)
        reduced.nbytes += parcel.nbytes

    def _travelling(self, member: Member, parcel: Parcel, now: float) -> Finish:
        """What is summarised when it has arrived on the host."""
        box, plan = parcel.add(member.tensor), member.plan
        since = partial(self._memory_of_travellers.update, member.key)

        def finish() -> list[tuple[Plan, Captured]]:
            found = capture(plan, box.tensor, since)
            return [(plan, msgspec.structs.replace(each, wall_time=now)) for each in found]

        return finish

    def _finished(self, what: str, finish: Finish) -> list[tuple[Plan, Captured]]:
        found: list[tuple[Plan, Captured]] = []
        with self._guarded(what):
            found += finish()
        return found

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """One tensor shall not cost the others, nor the training."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a training must not end by this
            self._trouble(what, error)

    def _wait(self) -> None:
        self.synchronisations += 1


def _member(plan: Plan, tensor: Any, mode: Mode) -> Member | None:
    """A tensor that can be reduced; None if there is nothing to reduce."""
    found = plain(tensor)
    return None if found is None else Member(plan, found, f"{mode.name}/{plan.saved.name}")


def _lost(plan: Plan) -> str:
    return f"tensor {plan.saved.name!r:.200} is not captured"


def _nbytes(captured: Captured) -> int:
    return int(getattr(captured.value, "nbytes", 0))
