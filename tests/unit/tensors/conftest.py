"""The runs that smdebug 1.0.34 wrote, with what is known of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "smdebug"
_NAMES = sorted(path.parent.name for path in _FIXTURES.glob("*/expected.json"))


@dataclass(frozen=True)
class Sample:
    """A run of smdebug: ``records`` and ``files`` are facts, ``trial`` is what smdebug reads."""

    name: str
    path: Path
    records: list[dict[str, Any]]
    files: dict[str, str]
    trial: dict[str, Any]


def _sample(name: str) -> Sample:
    folder = _FIXTURES / name
    expected = json.loads((folder / "expected.json").read_text())
    path = next(p for p in (folder / "run", folder / "tensors") if p.is_dir())
    return Sample(name, path, expected["records"], expected["files"], expected["trial"])


@pytest.fixture(params=_NAMES)
def sample(request: pytest.FixtureRequest) -> Sample:
    """Each of the runs in turn."""
    return _sample(request.param)


@pytest.fixture
def named_sample() -> Any:
    """One run by name."""
    return _sample
