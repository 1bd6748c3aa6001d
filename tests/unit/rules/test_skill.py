from __future__ import annotations

import numpy as np
import pytest
from tocsin.rules.skill._skill import score_batch


@pytest.mark.parametrize(("columns", "judged"), [(10, True), (100, True), (128, False)])
def test_rows_of_an_embedding_are_not_scores_of_classes(columns: int, judged: bool) -> None:
    """Metric learning: labels of few identities, and a vector for each sample."""
    rng = np.random.default_rng(0)
    batch = score_batch(rng.integers(0, 10, 64), rng.normal(size=(64, columns)))
    assert (batch is not None) is judged
