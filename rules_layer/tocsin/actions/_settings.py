"""What the function ``act`` is told by its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Settings(msgspec.Struct, frozen=True, rename=lambda name: f"TOCSIN_{name.upper()}"):
    """Field ``topic_arn`` is the variable ``TOCSIN_TOPIC_ARN``, and so on.

    ``emails`` and ``phones`` say whether the deployment subscribes any itself.
    """

    table: _Text
    bus: _Text
    topic_arn: Annotated[str, msgspec.Meta(pattern=r"\Aarn:[^:]+:sns:")]
    emails: bool = False
    phones: bool = False

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """Reads and checks; a msgspec.ValidationError names the variable that is wrong."""
        return msgspec.convert(dict(environment), cls, strict=False)
