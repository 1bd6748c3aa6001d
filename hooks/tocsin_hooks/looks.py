"""Names, numbers and rules of checks that observe a training beyond its tensors."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.contracts import Contract, get, tensor_name
from tocsin.model import Role

from tocsin_hooks.hook import Hook

EVERY_STEP = 400
"""Steps of training that are looked at one by one; from then on those that are saved are."""


class Name(NamedTuple):
    """The name of a tensor, with its collections, role and kind."""

    name: str
    collections: tuple[str, ...]
    role: Role | None
    kind: str | None


SAMPLES = Name("samples", ("samples",), Role.SAMPLE, None)


def skill_name(site: str, function: str) -> Name:
    return Name(f"{site}/skill", ("skills",), Role.SKILL, function)


def contract_name(contract: str, place: str) -> Name:
    """Return the tensor that reports a contract. Raises UnknownContract for an id that there is
    not."""
    return reported(get(contract), place)


def reported(contract: Contract, place: str) -> Name:
    return Name(tensor_name(contract.id, place), ("contracts",), Role.CONTRACT, None)


def columns_name(data_set: str, kind: str) -> Name:
    return Name(f"columns/{data_set}", ("columns",), Role.COLUMN, kind)


def is_compared(passes: int) -> bool:
    """Return whether the latest of so many passes of an evaluation is: the first seven, and then
    four each time that their number doubles."""
    return passes % (1 << max(0, passes.bit_length() - 3)) == 0


class Wanted:
    """Asks the hook once in each generation of its configuration."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._generation = -1
        self._found: dict[Name, bool] = {}

    @property
    def skill(self) -> bool:
        return self._is_wanted(_SKILL)

    @property
    def contracts(self) -> bool:
        return self._is_wanted(_CONTRACT)

    @property
    def samples(self) -> bool:
        return self._is_wanted(SAMPLES)

    def _is_wanted(self, name: Name) -> bool:
        if self._generation != self._hook.generation:
            self._generation = self._hook.generation
            self._found.clear()
        if name not in self._found:
            self._found[name] = self._hook.wants(
                name.name, name.collections, role=name.role, kind=name.kind
            )
        return self._found[name]


_SKILL = skill_name("loss", "loss")
_CONTRACT = contract_name("broadcast", "train.py:1")
