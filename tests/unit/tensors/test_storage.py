from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.tensors.storage import Span, coalesce, scatter

K = 1024


@pytest.mark.parametrize(
    ("ranges", "spans"),
    [
        ([], []),
        ([(0, 10), (10, 10)], [Span(0, 20, (0, 1))]),
        ([(0, 10), (10 + 64 * K, 5)], [Span(0, 15 + 64 * K, (0, 1))]),
        ([(0, 10), (11 + 64 * K, 5)], [Span(0, 10, (0,)), Span(11 + 64 * K, 5, (1,))]),
        ([(100, 50), (0, 200), (120, 10)], [Span(0, 200, (1, 0, 2))]),
    ],
)
def test_coalesce(ranges, spans):
    assert coalesce(ranges) == spans


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=20), st.integers(0, 40)
)
def test_what_was_asked_for_comes_back(ranges, gap):
    file = bytes(i % 251 for i in range(400))
    spans = coalesce(ranges, gap)
    data = [file[span.start : span.start + span.length] for span in spans]
    assert scatter(ranges, spans, data) == [file[s : s + n] for s, n in ranges]
    assert all(a.start + a.length + gap < b.start for a, b in pairwise(spans))
