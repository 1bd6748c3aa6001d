"""The data of the page: the fields of ``report.json``, which the template draws."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tocsin.report.machine_parts import Machine, StepTrace
from tocsin.report.parts import Alert, Boosted, Curve, Fan, Headline, Heat, RuleCard, Run

SCHEMA = 1
"""Rises when a field changes its meaning or goes away."""


class Quality(msgspec.Struct, frozen=True):
    """The data behind the verdicts. ``interval``: median number of steps between two saves.

    problems: what cannot be used, and why. thinned: how the maps were thinned, if they were.
    """

    files: int
    steps: int
    interval: float | None
    lost: int
    late: int
    refused: int
    unreadable: int
    missing_workers: int
    problems: list[tuple[str, str]]
    thinned: str | None


class Other(msgspec.Struct, frozen=True):
    """Another run, to compare with."""

    run: Run
    verdict: Headline
    losses: list[Curve]
    rules: list[RuleCard]


class Page(msgspec.Struct, frozen=True):
    """All data of the page. ``missing``: sentences on missing data and how to capture it.
    ``machine``: None where no machine was watched. ``step_trace``: None where none was asked for.
    """

    schema: int
    made: str
    tocsin: str
    run: Run
    verdict: Headline
    losses: list[Curve]
    rules: list[RuleCard]
    alerts: list[Alert]
    heats: Mapping[str, Heat]
    fans: Mapping[str, Fan]
    boosted: Boosted | None
    quality: Quality
    missing: list[str]
    others: list[Other]
    machine: Machine | None = None
    step_trace: StepTrace | None = None


_encoder = msgspec.json.Encoder()


def json_of(page: Page) -> bytes:
    """``report.json``: UTF-8, without a NaN."""
    return _encoder.encode(page)
