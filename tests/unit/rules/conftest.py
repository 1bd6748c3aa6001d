"""Steps for rules to judge, made of plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.tensors import summarize

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


@pytest.fixture
def make_tensor() -> MakeTensor:
    """A tensor from its values, or from a summary alone."""

    def make(
        name: str, content: Any, *, worker: str = "worker_0", role: Role | None = None
    ) -> Tensor:
        if isinstance(content, TensorSummary):
            return Tensor(name, worker, content, role=role)
        value = np.asarray(content)
        return Tensor(name, worker, summarize(value), value.shape, str(value.dtype), role)

    return make


@pytest.fixture
def make_step(make_tensor: MakeTensor) -> MakeStep:
    """A step in which ``read`` has found these tensors: content by name, or finished ones."""

    def make(
        read: str,
        number: int,
        found: Mapping[str, Any] | list[Tensor],
        *,
        mode: Mode = Mode.TRAIN,
        mode_step: int | None = None,
    ) -> Step:
        if isinstance(found, Mapping):
            found = [make_tensor(name, content) for name, content in found.items()]
        count = number if mode_step is None else mode_step
        return Step(number, mode, count, 1000.0 + number, {read: tuple(found)})

    return make
