from __future__ import annotations

import pytest
from tocsin.model import Outcome, Reason, Role, TensorSummary
from tocsin.rules import HEALTHY, UNDECIDED, Read, Tensor, not_applicable, violation


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (Read(), "any tensor"),
        (Read(roles=(Role.LOSS,)), "role loss"),
        (Read(roles=(Role.WEIGHT, Role.BIAS)), "role weight or role bias"),
        (Read(collections=("losses",)), "collection losses"),
        (
            Read(collections=("losses",), regex=("a.*", "b")),
            "collection losses or name matching 'a.*' or name matching 'b'",
        ),
        (Read(roles=(Role.LOSS,), regex=("a",)), "name matching 'a'"),
    ],
)
def test_describe(read: Read, expected: str) -> None:
    assert read.describe() == expected


def test_what_is_named_replaces_roles_and_keeps_what_is_wanted_of_a_tensor() -> None:
    read = Read(roles=(Role.WEIGHT,), kinds=("relu",), fields=("l2",), values=True, back=3)
    assert read.explicitly((), ()) is read
    assert read.explicitly(("c",), ()) == Read(
        collections=("c",), fields=("l2",), values=True, back=3
    )
    assert read.explicitly(("c",), ("r",)).regex == ("r",)


def test_verdicts() -> None:
    tensor = Tensor("w", "worker_3", TensorSummary())
    found = violation(Reason.ABOVE_THRESHOLD, "too large", tensor, l2=5.0)
    assert found.violation
    assert (found.tensor, found.worker, dict(found.evidence)) == ("w", "worker_3", {"l2": 5.0})
    nothing = not_applicable(Reason.NO_SUMMARY, "nothing there")
    assert (nothing.outcome, nothing.detail) == (Outcome.NOT_APPLICABLE, "nothing there")
    assert not any(verdict.violation for verdict in (HEALTHY, UNDECIDED, nothing))
