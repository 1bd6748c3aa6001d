"""What other tools wrote (``tests/fixtures/histories/make.py``), beside what they say it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .test_tables import curve, read

FIXTURES = Path(__file__).parents[2] / "fixtures" / "histories"
EXPECTED: dict[str, dict[str, list[float]]] = json.loads((FIXTURES / "expected.json").read_text())


@pytest.mark.parametrize("place", EXPECTED)
def test_what_a_tool_wrote(place: str) -> None:
    storage, line = read(FIXTURES / place)
    found = {name: [*curve(storage, name).values()] for name in EXPECTED[place]}
    assert found == {name: pytest.approx(v, rel=1e-3) for name, v in EXPECTED[place].items()}
    assert "left out" not in line
    assert "others: --training" not in line
