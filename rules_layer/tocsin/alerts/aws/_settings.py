"""The environment variables of the functions ``act`` and ``patrol``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from tocsin.evaluation.aws import read_settings
from tocsin.parsing import DEFAULT_STOP_LIMIT, StopLimit, list_items, stop_limit

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_LISTS = ("EMAILS", "PHONES", "ALLOWED_RECIPIENTS", "WEBHOOKS")


class PatrolSettings(msgspec.Struct, frozen=True, rename=lambda name: f"TOCSIN_{name.upper()}"):
    """Field ``table`` is the variable ``TOCSIN_TABLE``, and so on."""

    table: _Text
    evaluate_queue_url: _Text
    act_queue_url: _Text


class Settings(msgspec.Struct, frozen=True, rename=lambda name: f"TOCSIN_{name.upper()}"):
    """The variables of ``act``: field ``table`` is ``TOCSIN_TABLE``, and so on.

    emails, phones: the recipients that the deployment subscribes itself.
    allowed_recipients: the recipients that a rule may name beside those.
    webhooks: the names of the deployment's webhooks.
    sms_monthly_cap: the most SMS in a calendar month.
    stop_guard: the stop guard's limit, runs per time.
    dashboard: the URL that messages refer to.
    """

    table: _Text
    bus: _Text
    topic_arn: Annotated[str, msgspec.Meta(pattern=r"\Aarn:[^:]+:sns:")]
    state_bucket: _Text
    act_queue_url: _Text
    emails: tuple[str, ...] = ()
    phones: tuple[str, ...] = ()
    allowed_recipients: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    sms_monthly_cap: Annotated[int, msgspec.Meta(ge=0)] = 100
    stop_guard: str = DEFAULT_STOP_LIMIT
    dashboard: str = ""

    def __post_init__(self) -> None:
        try:
            stop_limit(self.stop_guard)
        except ValueError as error:
            raise ValueError(f"TOCSIN_STOP_GUARD: {error}") from error

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """Reads the variables. Raises ValueError that names the one which is missing or wrong."""
        names = [f"TOCSIN_{name}" for name in _LISTS]
        lists = {name: list_items(environment[name]) for name in names if name in environment}
        return read_settings(cls, {**environment, **lists})

    @property
    def stop_limit(self) -> StopLimit:
        """``stop_guard`` in numbers."""
        return stop_limit(self.stop_guard)
