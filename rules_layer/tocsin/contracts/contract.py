"""A contract: what must hold in a training, and what to say where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from tocsin.model import Severity

Text = Annotated[str, Meta(max_length=300)]


@dataclass(frozen=True)
class Contract:
    """A contract and its texts, each a clause of at most 25 words without a full stop.

    id: part of the name of the tensor that reports a violation, ``contract/<id>/<place>``.
    says: what happened.
    cause: what follows from it.
    advice: what to do.
    """

    id: Annotated[str, Meta(max_length=128)]
    severity: Severity
    says: Text
    cause: Text = ""
    advice: Text = ""

    @property
    def text(self) -> str:
        return "; ".join(filter(None, (self.says, self.cause, self.advice)))
