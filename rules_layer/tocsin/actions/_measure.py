"""Which number of a tensor an alert is about."""

from __future__ import annotations

from msgspec.structs import fields

from tocsin.events import StatusChange
from tocsin.model import TensorSummary

# Of what is not finite people want to see the values that led there, not the count.
_NUMBERS = frozenset(
    field.name
    for field in fields(TensorSummary)
    if field.type == float | None or field.name == "zeros"
)


def measure(alert: StatusChange) -> str:
    """The field of the tensor's summary that decided, if it is a value of its; else mean."""
    first = next(iter(alert.evidence), "")
    return first if first in _NUMBERS else "mean"
