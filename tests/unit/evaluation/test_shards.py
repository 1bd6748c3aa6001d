from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tocsin.evaluation import check, document
from tocsin.evaluation.shards import joined
from tocsin.model import Mode, Role, Shard
from tocsin.rules import Tensor
from tocsin.tensors import Captured, LocalStorage, RunWriter, summarize
from tocsin.watch import to_watch

WHOLE = np.arange(1.0, 15.0).reshape(7, 2)
PARTS = (WHOLE[:4], WHOLE[4:])


def part(number: int, worker: int, name: str = "w", scale: float = 1.0) -> Tensor:
    earlier = Tensor(name, f"worker_{worker}", summarize(PARTS[number]))
    return Tensor(
        name,
        f"worker_{worker}",
        summarize(scale * PARTS[number]),
        shape=PARTS[number].shape,
        role=Role.WEIGHT,
        previous=(earlier,),
        shard=Shard((7, 2), number),
    )


def test_parts_become_one_tensor_with_its_earlier_saves() -> None:
    other = Tensor("loss", "worker_1", summarize(np.array(1.0)))
    found, kept = joined([part(0, 0, scale=2.0), other, part(1, 1, scale=2.0)])
    assert kept is other
    assert (found.name, found.worker, found.shape, found.role) == (
        *("w", "worker_0"),
        (7, 2),
        Role.WEIGHT,
    )
    assert found.shard is None
    assert found.summary.l2 == pytest.approx(2 * np.linalg.norm(WHOLE))
    assert [each.summary.l2 for each in found.previous] == [pytest.approx(np.linalg.norm(WHOLE))]


def test_a_part_that_several_workers_hold_counts_once() -> None:
    (found,) = joined([part(0, 0), part(1, 1), part(0, 2), part(1, 3)])
    assert found.summary.size == WHOLE.size


def test_a_rule_judges_the_whole(tmp_path: Path) -> None:
    """One worker's part is zero, and the tensor is not."""
    storage = LocalStorage(tmp_path / "run")
    writers = [RunWriter(storage, f"worker_{number}", run_id="start-1") for number in (0, 1)]
    writers[0].write_collections([])
    for step in range(3):
        for number, value in enumerate((np.zeros((4, 2)), np.ones((3, 2)))):
            shard = None if step == 1 else Shard((7, 2), number)
            summary = summarize(value)
            part = Captured("w", shape=value.shape, role=Role.WEIGHT, summary=summary, shard=shard)
            writers[number].write(step, Mode.TRAIN, step, [part])
    writers[0].close()
    watch = to_watch({"rules": [{"rule": "AllZero", "for_steps": 1}]})
    (found,) = document(check(storage, watch)[0])["rules"]
    assert (found["Violations"], found["FirstViolation"]["step"]) == (1, 1)
