"""The trainable variables of a model, by the names that smdebug gave them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tocsin.model import Role

_BIASES = ("bias", "beta")


@dataclass(frozen=True)
class KerasParameter:
    """A trainable variable, with the place that it has in a run."""

    name: str
    variable: Any
    role: Role

    @property
    def collection(self) -> str:
        return "biases" if self.role is Role.BIAS else "weights"


def parameters(model: Any) -> list[KerasParameter]:
    """Each trainable variable once: ``dense/weights/dense/kernel:0`` for the kernel of ``dense``.

    The first part is the layer of the model, or the model for variables of its own. Variables
    whose names would be the same are numbered.
    """
    found: dict[str, KerasParameter] = {}
    seen: set[int] = set()
    for owner in (*model.layers, model):
        for variable in owner.trainable_variables:
            if id(variable) not in seen:
                seen.add(id(variable))
                name = _unique(_name(owner.name, variable.path), found)
                found[name] = KerasParameter(name, variable, _role(variable.name))
    return list(found.values())


def _name(owner: str, path: str) -> str:
    parts = path.split("/")
    inner = parts[parts.index(owner) :] if owner in parts else parts
    return f"{owner}/weights/{'/'.join(inner)}"


def _unique(name: str, known: dict[str, KerasParameter]) -> str:
    number, candidate = 0, f"{name}:0"
    while candidate in known:
        number += 1
        candidate = f"{name}_{number}:0"
    return candidate


def _role(name: str) -> Role:
    return Role.BIAS if name in _BIASES or name.endswith("_bias") else Role.WEIGHT
