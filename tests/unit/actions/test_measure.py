from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions._measure import measure


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ({"abs_mean": 1.0, "threshold": 2.0}, "abs_mean"),
        ({"nan": 3, "size": 5}, "mean"),
        ({"zeros": 3}, "zeros"),
        ({"threshold": 2.0, "abs_mean": 1.0}, "mean"),
        ({}, "mean"),
        ({"fingerprint": "ab"}, "mean"),
        ({"quantiles": 1.0}, "mean"),
        ({"__class__": 1.0}, "mean"),
    ],
)
def test_measure(make_alert: Any, evidence: dict[str, Any], expected: str) -> None:
    assert measure(make_alert(Evidence=evidence)) == expected
