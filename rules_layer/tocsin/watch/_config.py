"""What to watch and what to do about it: the watch file as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from tocsin.model import Severity

Grace = int | str
"""A number of steps, or a time such as ``30s``."""

Name = Annotated[str, msgspec.Meta(max_length=256)]
"""As long as Amazon allows it: it comes back in events, metrics and messages."""

Actions = Annotated[
    tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=512)], ...],
    msgspec.Meta(max_length=20),
]
"""As they are written. One that nobody can take is refused when it is taken, by itself."""


@dataclass(frozen=True)
class RuleConfig:
    """One rule of the watch file. ``None`` leaves an option to the rule's and profile's default."""

    rule: Name
    name: Name | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    for_steps: int | None = None
    start_step: int | None = None
    end_step: int | None = None
    every: int | None = None
    grace: Grace | None = None
    resolve: int | None = None
    mode: Literal["TRAIN", "EVAL", "PREDICT", "GLOBAL"] | None = None
    include: str | tuple[str, ...] = ()
    exclude: str | tuple[str, ...] = ()
    severity: Severity | None = None
    actions: Actions | None = None
    inhibits: tuple[str, ...] = ()

    @property
    def configuration_name(self) -> str:
        return self.name or self.rule


@dataclass(frozen=True)
class CollectionConfig:
    """What to capture of a collection: names by regex, when, and whether raw values."""

    include_regex: str | tuple[str, ...] = ()
    reductions: str = ""
    save_raw_tensor: bool | None = None
    save_interval: int | None = None


@dataclass(frozen=True)
class Capture:
    """When to capture: every N steps of a mode or every N seconds, whichever comes first."""

    save_interval: int | None = None
    save_interval_seconds: float | None = None
    collections: Mapping[str, CollectionConfig] = field(default_factory=dict)


@dataclass(frozen=True)
class Notify:
    """How alerts are put together before they are sent."""

    group_wait: str = "10s"
    repeat_interval: str = "4h"
    send_resolved: bool = True


@dataclass(frozen=True)
class Watch:
    """A whole watch file. Without ``rules`` those of the profile watch, with their defaults."""

    profile: Literal["recommended", "sagemaker"] = "recommended"
    severity: Severity = Severity.WARNING
    actions: Actions = ("email", "metric")
    rules: tuple[RuleConfig, ...] | None = None
    capture: Capture = field(default_factory=Capture)
    notify: Notify = field(default_factory=Notify)
    custom_rules: str | None = None
    dry_run: bool = False


def as_tuple(value: str | Sequence[str]) -> tuple[str, ...]:
    """A single pattern, or several."""
    return (value,) if isinstance(value, str) else tuple(value)
