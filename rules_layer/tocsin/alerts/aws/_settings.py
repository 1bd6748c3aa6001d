"""What the functions ``act`` and ``patrol`` are told by their environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from tocsin.alerts.aws._guard import StopLimit
from tocsin.evaluation.aws import read_settings

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_LISTS = ("EMAILS", "PHONES", "ALLOWED_RECIPIENTS", "WEBHOOKS")
_GUARD = r"\A[1-9][0-9]{0,3}/[1-9][0-9]{0,4}[smh]\Z"
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class PatrolSettings(msgspec.Struct, frozen=True, rename=lambda name: f"TOCSIN_{name.upper()}"):
    """Field ``table`` is the variable ``TOCSIN_TABLE``, and so on."""

    table: _Text
    evaluate_queue_url: _Text
    act_queue_url: _Text


class Settings(msgspec.Struct, frozen=True, rename=lambda name: f"TOCSIN_{name.upper()}"):
    """The act function's. ``emails`` and ``phones`` are those that the deployment subscribes
    itself, ``webhooks`` the names of its endpoints.
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
    stop_guard: Annotated[str, msgspec.Meta(pattern=_GUARD)] = "10/10m"
    dashboard: str = ""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """Raises ValueError that names the variable which is missing or wrong."""
        lists = {
            name: [part for part in map(str.strip, environment[name].split(",")) if part]
            for name in (f"TOCSIN_{each}" for each in _LISTS)
            if name in environment
        }
        return read_settings(cls, {**environment, **lists})

    @property
    def stop_limit(self) -> StopLimit:
        """``10/10m`` is ten jobs within ten minutes."""
        most, _, length = self.stop_guard.partition("/")
        return StopLimit(int(most), int(length[:-1]) * _SECONDS[length[-1]])
