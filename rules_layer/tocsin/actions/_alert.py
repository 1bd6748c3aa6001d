"""The alert that ``act`` works on: one status change of one rule, as it comes off the bus."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tocsin.model import RuleStatus, Severity

Evidence = dict[str, bool | int | float | str | None]

# What lands in addresses is checked here, once; what lands in texts is cleaned where it is written.
_Job = Annotated[str, msgspec.Meta(max_length=1024, pattern=r"\A[^\x00-\x1f\x7f/]+\Z")]
_Run = Annotated[
    str,
    msgspec.Meta(
        max_length=1100, pattern=r"\As3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9](/[^\x00-\x1f\x7f]+)?\Z"
    ),
]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
_Step = Annotated[int, msgspec.Meta(ge=0, lt=10**18)]


class Alert(msgspec.Struct, frozen=True, rename="pascal"):
    """The detail of a ``Tocsin Rule Evaluation Status Change``. Non-finite evidence is text.

    ``actions`` are any texts: what is wrong with one is told when it is taken, so that it costs
    no other.
    """

    training_job_name: _Job
    run: _Run
    rule_configuration_name: _Name
    rule: _Name
    rule_evaluation_status: RuleStatus
    dedup_id: _Name
    status_details: str = ""
    severity: Severity = Severity.WARNING
    step: _Step | None = None
    mode: str | None = None
    mode_step: _Step | None = None
    worker: str | None = None
    tensor: str | None = None
    reason: str | None = None
    evidence: Evidence = {}
    actions: list[str] = []
    dry_run: bool = False
    evaluated_at: str | None = None
    run_id: str | None = None


class _Envelope(msgspec.Struct, frozen=True, rename={"detail_type": "detail-type"}):
    detail_type: Literal["Tocsin Rule Evaluation Status Change"]
    source: Literal["tocsin"]
    detail: Alert


class BadAlert(ValueError):
    """The message is no alert of ours; the text says which field is wrong and how."""


def decode(body: str | bytes) -> Alert:
    """The alert in the EventBridge envelope ``body``. BadAlert if it is not a valid one."""
    try:
        return msgspec.json.decode(body, type=_Envelope).detail
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadAlert(f"not a status change of Tocsin's: {error}") from None
