"""A silence: no notification and no stop until a time, for some jobs and rules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec

from tocsin.model import Severity

WATCH_FILE = "watch file"
"""The id of the silences of a watch file."""

_Glob = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Text = Annotated[str, msgspec.Meta(max_length=512)]


@dataclass(frozen=True)
class Silence:
    """Holds back the alerts that it covers, until a time with a time zone.

    until: the end of the silence, with a time zone.
    job, rule: patterns with ``*``, ``?`` and ``[ab]`` of the job's name and the rule's ``name``.
    severity: alerts of this severity; default: all.
    author, reason: for readers of ``tocsin status``.
    id: names it in decisions; set by Tocsin.

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
        """Return whether it covers an alert, at any time."""
        return fnmatchcase(job, self.job) and self.covers_rule(rule, severity)

    def covers_rule(self, rule: str, severity: Severity | None) -> bool:
        """Return whether it covers an alert of its jobs. A severity of None is not known yet."""
        matches = severity is None or self.severity in (None, severity)
        return fnmatchcase(rule, self.rule) and matches

    def covers_all(self, job: str) -> bool:
        """Return whether it covers all alerts of a job."""
        return fnmatchcase(job, self.job) and self.rule == "*" and self.severity is None
