"""Owners of runs, and the limited resources that runs share."""

from __future__ import annotations

from dataclasses import dataclass

MONTH, DAY = "%Y-%m", "%Y-%m-%d"  # of UTC


def owner_of(run: str, prefix: str = "") -> str:
    """Return the owner of a run (URL): the first folder below ``prefix``, the deployment's
    capturePrefix.

    Every limit is counted by it. Whoever writes below one folder cannot have another owner, however
    deep the runs are. A run that is the prefix itself belongs to "".

    >>> owner_of("s3://captures/runs/vision/resnet-7/debug-output", "runs/")
    'vision'
    """
    path = run.partition("://")[2].partition("/")[2]
    return f"{path}/".removeprefix(prefix).partition("/")[0]


@dataclass(frozen=True)
class Shared:
    """Something that all runs share.

    noun: its name in the plural, for people.
    period: the time that a limit is for, in the form of ``strftime``.
    """

    noun: str
    period: str


SHARED = {
    "sms": Shared("SMS", MONTH),
    "email": Shared("e-mails", DAY),
    "webhook": Shared("posts to webhooks", DAY),
    "metric": Shared("metrics", MONTH),
    "issue": Shared("metrics of IssuesFound", MONTH),
    "subscription": Shared("subscriptions", MONTH),
}
"""By kind: what a run brings about that costs money, or somebody's attention."""


def refusal(kind: str, count: int, whose: str, cap: int, period: str, option: str) -> str:
    """Describe, in one line, why further uses of a kind are refused."""
    named = f" ({option})" if option else ""
    noun = SHARED[kind].noun
    return f"{count} more {noun} would exceed {whose} cap of {cap} in {period}{named}"
