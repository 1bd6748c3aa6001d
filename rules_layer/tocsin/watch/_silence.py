"""A silence: for a while nothing is told, and no job stopped, for some jobs and rules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec

from tocsin.model import Severity

WATCH_FILE = "watch file"
"""The id of silences that stand in a watch file."""

_Glob = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Text = Annotated[str, msgspec.Meta(max_length=512)]


@dataclass(frozen=True)
class Silence:
    """Holds back what it covers ``until`` (with a time zone). ``job`` and ``rule`` are globs, of
    job names and of names that a watch file gives to rules; ``severity`` None is any.

    >>> Silence(datetime.fromisoformat("2026-12-01T08:00+00:00"), job="nightly-*", reason="known")
    """

    until: Annotated[datetime, msgspec.Meta(tz=True)]
    job: _Glob = "*"
    rule: _Glob = "*"
    severity: Severity | None = None
    author: _Text = ""
    reason: _Text = ""
    id: _Text = WATCH_FILE

    def covers(self, job: str, rule: str, severity: Severity) -> bool:
        """Whether it is about such an alert, whatever the time."""
        return fnmatchcase(job, self.job) and self.covers_rule(rule, severity)

    def covers_rule(self, rule: str, severity: Severity) -> bool:
        """Whether it is about such an alert of the jobs it covers."""
        return fnmatchcase(rule, self.rule) and self.severity in (None, severity)

    def covers_all(self, job: str) -> bool:
        """Whether it is about all alerts of such a job."""
        return fnmatchcase(job, self.job) and self.rule == "*" and self.severity is None
