"""Tensors of one type on one device, reduced together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from tocsin.model import TensorSummary
from tocsin.tensors import BFLOAT16, FINGERPRINT_SMALL, REDUCTIONS, Captured, reduction_name

from tocsin_hooks.memory import MOST_SAMPLED
from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.torch.reductions.detail import Fields, details
from tocsin_hooks.torch.reductions.fingerprint import fingerprints, host_type
from tocsin_hooks.torch.reductions.moments import TensorMoments, moments
from tocsin_hooks.torch.reductions.packing import pieces
from tocsin_hooks.torch.reductions.transfer import Box, Parcel
from tocsin_hooks.torch.reductions.updates import Samples

_REDUCIBLE = frozenset(REDUCTIONS) - {"median", "abs_median"}
"""Reductions that need no more memory on the device than a piece of the tensor takes."""


class GroupMember(NamedTuple):
    """A tensor to reduce; ``key`` is what its updates go by."""

    plan: CapturePlan
    tensor: Any
    key: str


def travels(member: GroupMember) -> bool:
    """Return whether all values go to the host: where they are kept, or so few that they may as
    well."""
    plan, tensor = member.plan, member.tensor
    size = tensor.numel()
    hashed = _hashed(plan, tensor) and size * host_type(tensor.dtype).itemsize
    return (
        plan.keeps(size, size * tensor.element_size())
        or size <= 1
        or tensor.is_complex()
        or not _REDUCIBLE.issuperset(plan.reductions)
        or 0 < hashed <= FINGERPRINT_SMALL
    )


class TensorGroup:
    """Tensors of one type on their way to becoming ``Captured``. It holds on to none of them."""

    def __init__(
        self, members: Sequence[GroupMember], parcel: Parcel, samples: Samples, now: float
    ) -> None:
        tensors = [member.tensor for member in members]
        self._plans = [member.plan for member in members]
        self._shapes = [tuple(tensor.shape) for tensor in tensors]
        self._dtype = tensors[0].dtype
        self._now = now
        self._moments = parcel.add(moments(tensors, self._dtype))
        self._details = [
            [details(tensor, asked, parcel) for asked in plan.wish.details]
            for plan, tensor in zip(self._plans, tensors, strict=True)
        ]
        self._reductions = [
            [(name, parcel.add(_reduction_of(tensor, name))) for name in plan.reductions]
            for plan, tensor in zip(self._plans, tensors, strict=True)
        ]
        self._hashed = [at for at, each in enumerate(tensors) if _hashed(self._plans[at], each)]
        if self._hashed:
            self._fingerprints = fingerprints([tensors[at] for at in self._hashed], parcel)
        self._moved = [at for at, plan in enumerate(self._plans) if plan.wish.update]
        if self._moved:
            keys = [members[at].key for at in self._moved]
            self._updates = samples.updates(keys, [tensors[at] for at in self._moved], parcel)

    def finish(self) -> list[tuple[CapturePlan, Captured]]:
        """Its tensors, each with its reductions, when the parcel has arrived."""
        sizes = [math.prod(shape) for shape in self._shapes]
        summaries = list(TensorMoments(self._moments.tensor.numpy(), sizes).summaries())
        self._add_content(summaries)
        found = []
        for at, plan in enumerate(self._plans):
            found.append(
                (plan, self._captured(at, _with_details(summaries[at], self._details[at])))
            )
            found += [(plan, self._reduction(plan, *each)) for each in self._reductions[at]]
        return found

    def _add_content(self, summaries: list[TensorSummary]) -> None:
        """Fingerprints and updates."""
        prints = dict(zip(self._hashed, self._fingerprints(), strict=True)) if self._hashed else {}
        for at, each in prints.items():
            summaries[at] = msgspec.structs.replace(summaries[at], fingerprint=each)
        if self._moved:
            updates = self._updates([prints.get(at) for at in self._moved])
            for at, (l1, l2) in zip(self._moved, updates, strict=True):
                summaries[at] = msgspec.structs.replace(summaries[at], update_l1=l1, update_l2=l2)

    def _captured(self, at: int, summary: TensorSummary) -> Captured:
        plan = self._plans[at]
        role, kind = plan.saved.place
        return Captured(
            plan.saved.name,
            shape=self._shapes[at],
            dtype=_name(self._dtype),
            role=role,
            kind=kind,
            summary=summary,
            wall_time=self._now,
            list_shape=plan.shape,
            shard=plan.saved.shard,
        )

    def _reduction(self, plan: CapturePlan, reduction: str, number: Box) -> Captured:
        own = host_type(self._dtype)
        value = number.tensor.to(own if own.is_floating_point else torch.float32).numpy()
        name = reduction_name(reduction, plan.saved.name)
        return Captured(name, value=np.array(value), wall_time=self._now)


def _hashed(plan: CapturePlan, tensor: Any) -> bool:
    """Return whether a fingerprint is wanted, or needed to know that nothing changed."""
    return plan.wish.fingerprint or (plan.wish.update and tensor.numel() > MOST_SAMPLED)


def _with_details(
    summary: TensorSummary, asked: Sequence[Sequence[Callable[[], Fields]]]
) -> TensorSummary:
    """Gives its place to the first of details that cannot stand side by side."""
    for parts in asked:
        found = {name: value for part in parts for name, value in part().items()}
        if all(getattr(summary, name) is None for name in found):
            summary = msgspec.structs.replace(summary, **found)
    return summary


def _name(dtype: Any) -> str:
    """The name of the type that the numbers have in the run."""
    bits = dtype == torch.bfloat16
    return BFLOAT16 if bits else str(host_type(dtype)).removeprefix("torch.")


def _reduction_of(tensor: Any, name: str) -> Any:
    """The float64 number that ``tocsin.tensors.reduced`` gives, on the device.

    The tensor has real elements, and at least one.
    """
    bare = name.removeprefix("abs_")
    absolute = bare != name

    def folded(of: Callable[[Any], Any], fold: Callable[[Any], Any]) -> Any:
        wide = (each.double() for each in pieces(tensor))
        return fold(torch.stack([fold(of(each.abs() if absolute else each)) for each in wide]))

    if bare in _FOLDS:
        return folded(torch.Tensor.double, _FOLDS[bare])
    if bare == "l1":
        return folded(torch.abs, torch.sum)
    if bare == "l2":
        return folded(torch.square, torch.sum).sqrt()
    mean = folded(torch.Tensor.double, torch.sum) / tensor.numel()
    if bare == "mean":
        return mean
    variance = folded(lambda each: (each - mean).square(), torch.sum) / tensor.numel()
    return variance if bare == "variance" else variance.sqrt()


_FOLDS = {"min": torch.amin, "max": torch.amax, "sum": torch.sum, "prod": torch.prod}
