"""Which way a number gets better."""

from __future__ import annotations

import pytest
from tocsin_hooks.best import takes_the_worst


@pytest.mark.parametrize(
    ("name", "falls", "rises"),
    [
        ("loss", True, False),
        ("val_loss", True, False),
        ("valid/dice_loss", True, False),
        ("eval_rmse", True, False),
        ("val_accuracy", False, True),
        ("val_acc", False, True),
        ("Validation F1", False, True),
        ("neg_loss", False, False),
        ("negative_mean_absolute_error", False, False),
        ("elbo", False, False),
        ("lossless", False, False),
        ("epoch", False, False),
        ("", False, False),
    ],
)
def test_which_is_the_worst(name: str, falls: bool, rises: bool) -> None:
    assert takes_the_worst(name, largest=True) is falls
    assert takes_the_worst(name, largest=False) is rises
