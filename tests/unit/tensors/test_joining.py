from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.model import TensorSummary
from tocsin.tensors import joined_summary, summarize

VALUES = np.random.default_rng(1).standard_normal(40)
BROKEN = np.where(np.arange(40) % 7 == 0, np.nan, np.where(np.arange(40) == 3, np.inf, VALUES))


@pytest.mark.parametrize("at", [[20], [5, 30], [0], [40], [1, 2, 3]])
@pytest.mark.parametrize(
    "values",
    [VALUES, BROKEN, 1e200 * VALUES, VALUES + 1e6, np.zeros(40), np.full(40, np.nan)],
    ids=["usual", "not finite", "large", "far from zero", "zero", "nothing finite"],
)
def test_the_summary_of_the_whole(values: NDArray[Any], at: list[int]) -> None:
    before = values * 0.9
    whole = summarize(values, before)
    cuts = zip(np.split(values, at), np.split(before, at), strict=True)
    found = joined_summary([summarize(part, earlier) for part, earlier in cuts])
    expected = msgspec.structs.asdict(msgspec.structs.replace(whole, fingerprint=None))
    for name, number in expected.items():
        if name != "fingerprint":
            assert getattr(found, name) == (None if number is None else pytest.approx(number)), name


def test_a_change_of_a_part_changes_the_fingerprint() -> None:
    one, other = (summarize(values) for values in (VALUES, -VALUES))
    assert joined_summary([one, one]).fingerprint == joined_summary([one, one]).fingerprint
    assert joined_summary([one, one]).fingerprint != joined_summary([one, other]).fingerprint


def test_what_is_unknown_of_a_part_is_unknown() -> None:
    known = summarize(VALUES)
    found = joined_summary([known, TensorSummary(size=40, l2=1.0)])
    assert (found.size, found.l1, found.mean, found.fingerprint) == (80, None, None, None)
    assert found.l2 == pytest.approx(np.hypot(known.l2 or 0, 1))
