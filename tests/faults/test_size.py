"""Large models and large files: all rules go on working, within the memory that Lambda has."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tocsin.tensors import decode_index

from tests.faults.room import START, Room

LARGEST = 64 << 20  # bytes of an index file
MEMORY = (1024 - 128) << 20  # bytes that evaluate has, beside Python and what it imports


@pytest.mark.parametrize(
    ("workers", "tensors"), [(64, 3), (1, 150)], ids=["many workers", "many tensors"]
)
def test_every_recommended_rule_works_for_large_models(
    tmp_path: Path, workers: int, tensors: int
) -> None:
    room = Room(tmp_path, {"profile": "recommended"}, now=START + 100)
    job = room.job(workers=workers)
    names = [f"model.layers.{number}.weight" for number in range(tensors)]
    names += [f"gradient/{name}" for name in names]
    for step in range(2):
        for worker in range(workers):
            job.write_index(step, step - 1 if step else None, names, worker=f"worker_{worker}")
        room.look(job)
    known = room.known(job)
    assert (known.steps, known.refused_files, known.missing_workers) == (2, 0, 0)
    assert "Error" not in known.statuses.values()


def entries(count: int) -> list[Mapping[str, Any]]:
    return [
        {"tensorname": f"{number}", "originalname": f"{number}", "shape": [1, 2, 3, 4]}
        for number in range(count)
    ]


def quantiles(count: int) -> list[Mapping[str, Any]]:
    summary = {"size": 1, "quantiles": {f"{number}": 1 for number in range(count)}}
    return [{"tensorname": "a", "originalname": "a", "shape": [1], "summary": summary}]


@pytest.mark.parametrize(
    "payload", [entries(10_000), quantiles(60_000)], ids=["entries", "numbers"]
)
def test_the_largest_index_file_fits_into_memory(payload: list[Mapping[str, Any]]) -> None:
    meta = {"mode": "TRAIN", "mode_step": 0}
    document = {"meta": meta, "tensor_payload": [], "shape_payload": payload}
    data = json.dumps(document, separators=(",", ":")).encode()
    tracemalloc.start()
    try:
        index = decode_index(data, 0, "worker_0")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index.entries) == len(payload)
    assert (peak + len(data)) / len(data) * LARGEST <= MEMORY
