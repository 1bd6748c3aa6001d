"""An update of a model, and what its run holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tocsin.model import Mode, Role
from tocsin.tensors import Entry, IndexFile, LocalStorage, index_objects, read_index
from tocsin.trial import create_trial


def update(optimizer: Any, loss: Any) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def indexes(run: Path) -> list[IndexFile]:
    """The index files, in the order of their steps."""
    storage = LocalStorage(run)
    return [read_index(storage, each) for each in index_objects(storage)]


def entries(run: Path, role: Role) -> list[Entry]:
    """All tensors of a role, save by save."""
    return [each for index in indexes(run) for each in index.entries if each.role == role]


def contracts(run: Path) -> set[str]:
    """The contracts that were broken."""
    return {each.name.split("/")[1] for each in entries(run, Role.CONTRACT)}


def values(run: Path, name: str, mode: Mode = Mode.TRAIN) -> list[float]:
    """The numbers of a tensor, step by step."""
    tensor = create_trial(str(run)).tensor(name)
    return [np.asarray(tensor.value(step, mode=mode)).item() for step in tensor.steps(mode=mode)]
