"""Tensors reduced where they are."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import torch
from tocsin.model import Mode, Shard
from tocsin.tensors import Captured

from tocsin_hooks.capture import capture, check_name
from tocsin_hooks.guard import Guard, Report
from tocsin_hooks.memory import Memory
from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.torch.reductions.group import GroupMember, TensorGroup, travels
from tocsin_hooks.torch.reductions.plain import plain
from tocsin_hooks.torch.reductions.transfer import Finish, Parcel, Reduced, gathered
from tocsin_hooks.torch.reductions.updates import Samples

__all__ = ["Reduced", "Reducer", "gathered"]

_log = logging.getLogger("tocsin")

_LOST = "%d tensors are not captured"


def _warn(what: str, error: Exception) -> None:
    _log.warning("%s: %s", what, error)


class Reducer:
    """Reduces tensors as they are now: those of the host with the hook's own code, those of a GPU
    on the GPU.

    On a GPU it only enqueues work, on the current stream, and waits for nothing. Values that are
    kept travel to the host and are summarised there; so do the few whose numbers need all values.
    Accelerators of other kinds have their tensors copied to the host at once.

    What cannot be reduced is left out and reported to ``trouble``; tensors without numbers (of the
    meta device, fake, not yet initialised) and those of a CUDA graph in capture are left out in
    silence. ``device`` has tensors of the host reduced as those of a GPU are.

    Example
    -------
    >>> reducer = Reducer(hook.trouble)
    >>> reduced = gathered([reducer.reduce([(plan, layer.weight)])])
    >>> hook.put_later(reduced.finish, reduced.nbytes)
    """

    def __init__(self, trouble: Report = _warn, *, device: bool = False) -> None:
        self._trouble = trouble
        self._device = device
        self._memory = Memory()
        self._memory_of_travellers = Memory()  # of another thread: the one that finishes
        self._samples = Samples()
        self.synchronisations = 0
        """The number of times that the host has waited for a device."""

    def reduce(
        self, tensors: Sequence[tuple[CapturePlan, Any]], mode: Mode = Mode.TRAIN
    ) -> Reduced:
        """Reduce tensors of a step of ``mode``; updates are since the mode's last save."""
        reduced = Reduced(waited=self._wait)
        there: dict[Any, list[GroupMember]] = {}
        with torch.no_grad():
            for plan, tensor in tensors:
                with Guard(self._trouble, *_lost(plan)):
                    check_name(plan.saved)
                    member = _member(plan, tensor, mode)
                    if member is not None and (self._device or member.tensor.is_cuda):
                        there.setdefault(member.tensor.device, []).append(member)
                    elif member is not None:
                        self._on_host(member, reduced)
            for device, members in there.items():
                with Guard(self._trouble, _LOST, len(members)):
                    self._on_device(device, members, reduced)
        return reduced

    def _on_host(self, member: GroupMember, reduced: Reduced) -> None:
        tensor = member.tensor
        if tensor.device.type != "cpu":
            self._wait()
            tensor = tensor.cpu()
        since = partial(self._memory.update, member.key)
        found = [(member.plan, each) for each in capture(member.plan, tensor, since)]
        reduced.nbytes += sum(_nbytes(each) for _, each in found)
        reduced.finishes.append(lambda: found)

    def _on_device(self, device: Any, members: Sequence[GroupMember], reduced: Reduced) -> None:
        parcel, now = Parcel(device), time.time()
        finishes: list[Finish] = []
        groups: dict[Any, list[GroupMember]] = {}
        for member in members:
            if travels(member):
                finish = self._travelling(member, parcel, now)
                finishes.append(partial(self._finished, finish, *_lost(member.plan)))
            else:
                groups.setdefault(member.tensor.dtype, []).append(member)
        for group in groups.values():
            with Guard(self._trouble, _LOST, len(group)):
                finish = TensorGroup(group, parcel, self._samples, now).finish
                finishes.append(partial(self._finished, finish, _LOST, len(group)))
        parcel.seal()
        reduced.finishes += finishes
        reduced.parcels.append(parcel)
        reduced.nbytes += parcel.nbytes

    def _travelling(self, member: GroupMember, parcel: Parcel, now: float) -> Finish:
        """Send a tensor that is summarised when it has arrived on the host."""
        box, plan = parcel.add(member.tensor), member.plan
        since = partial(self._memory_of_travellers.update, member.key)

        def finish() -> list[tuple[CapturePlan, Captured]]:
            found = capture(plan, box.tensor, since)
            return [(plan, msgspec.structs.replace(each, wall_time=now)) for each in found]

        return finish

    def _finished(
        self, finish: Finish, what: str, *arguments: object
    ) -> list[tuple[CapturePlan, Captured]]:
        """Call ``finish``. An error in one tensor must not lose the others."""
        found: list[tuple[CapturePlan, Captured]] = []
        with Guard(self._trouble, what, *arguments):
            found += finish()
        return found

    def _wait(self) -> None:
        self.synchronisations += 1


def _member(plan: CapturePlan, tensor: Any, mode: Mode) -> GroupMember | None:
    """A tensor that can be reduced; None if there is nothing to reduce."""
    found = plain(tensor)
    if found is None:
        return None
    if (shard := _shard_of(tensor)) is not None:
        plan = replace(plan, saved=replace(plan.saved, shard=shard))
    return GroupMember(plan, found, f"{mode.name}/{plan.saved.name}")


def _lost(plan: CapturePlan) -> tuple[str, str]:
    return "tensor %.200r is not captured", plan.saved.name


def _nbytes(captured: Captured) -> int:
    return int(getattr(captured.value, "nbytes", 0))


def _shard_of(tensor: Any) -> Shard | None:
    """Return which part of a distributed tensor lies here; None for a whole tensor.

    Raises TypeError for a part of a sum, whose numbers mean nothing alone.
    """
    placements = getattr(tensor, "placements", None)
    if placements is None or not hasattr(tensor, "to_local"):
        return None
    if any(each.is_partial() for each in placements):
        raise TypeError("it is a partial sum that was not reduced")
    mesh = tensor.device_mesh
    number, is_part = 0, False
    for place, at, size in zip(placements, mesh.get_coordinate() or (), mesh.shape, strict=False):
        if not place.is_replicate():
            number, is_part = number * size + at, True
    return Shard(tuple(tensor.shape), number) if is_part else None
