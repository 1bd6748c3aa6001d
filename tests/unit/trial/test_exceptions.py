"""Exceptions say what people know from smdebug, and carry the same facts."""

from __future__ import annotations

import pytest
from tocsin import trial as t
from tocsin.model import Mode


@pytest.mark.parametrize(
    ("error", "message", "facts"),
    [
        (
            t.StepUnavailable(3, Mode.EVAL),
            "Step 3 of mode EVAL is not available as it was not saved",
            {"step": 3, "mode": Mode.EVAL},
        ),
        (
            t.StepNotYetAvailable(3, Mode.TRAIN),
            "Step 3 of mode TRAIN not yet available",
            {"step": 3, "mode": Mode.TRAIN},
        ),
        (
            t.NoMoreData(9, Mode.GLOBAL, 7),
            (
                "Looking for step 9 of mode GLOBAL and reached end of training. "
                "Max step available is 7"
            ),
            {"step": 9, "mode": Mode.GLOBAL, "last_step": 7},
        ),
        (t.TensorUnavailable("x"), "Tensor x was not saved.", {"tname": "x"}),
        (
            t.TensorUnavailableForStep("x", 3),
            "Value for tensor x is not available for step 3 with mode GLOBAL as it was not saved.",
            {"tname": "x", "step": 3, "mode": Mode.GLOBAL, "has_reductions": False},
        ),
        (
            t.ShapeUnavailableForStep("x", 3, Mode.EVAL),
            "Shape for tensor x is not available for step 3 with mode EVAL as it was not saved.",
            {"tname": "x", "step": 3, "mode": Mode.EVAL},
        ),
        (t.InvalidWorker("w"), "Invalid Worker: w", {"worker": "w"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_they_say(error, message, facts):
    assert isinstance(error, t.TrialError)
    assert str(error) == message
    assert vars(error) == facts
