"""What ``act`` works on, as it comes off the bus: a rule's status change, or a run's end."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from tocsin.model import RuleStatus, Severity
from tocsin.watch import LONGEST_WAIT, SHORTEST_REPEAT

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


class Notify(msgspec.Struct, frozen=True, rename="pascal"):
    """How a run's alerts are put together, in seconds. What is out of bounds is brought within."""

    group_wait: float = 10.0
    repeat_interval: float = 4 * 3600.0
    send_resolved: bool = True

    @property
    def wait(self) -> float:
        return min(max(self.group_wait, 0.0), LONGEST_WAIT)

    @property
    def repeat(self) -> float:
        return max(self.repeat_interval, SHORTEST_REPEAT)


class Silenced(msgspec.Struct, frozen=True, rename="pascal"):
    """A silence of the watch file that covers the rule; ``job`` is a glob."""

    until: Annotated[datetime, msgspec.Meta(tz=True)]
    job: str = "*"
    author: str = ""
    reason: str = ""
    id: str = ""


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
    previous_status: RuleStatus | None = None
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
    sequence: Annotated[int, msgspec.Meta(ge=0)] = 0
    inhibits: list[str] = []
    notify: Notify = Notify()
    silences: list[Silenced] = []

    @property
    def firing(self) -> bool:
        return self.rule_evaluation_status is RuleStatus.ISSUES_FOUND


class Status(msgspec.Struct, frozen=True, rename="pascal"):
    """A rule's status at the end of its run."""

    rule_configuration_name: _Name
    rule_evaluation_status: RuleStatus
    status_details: str = ""


class Steps(msgspec.Struct, frozen=True):
    evaluated: int = 0
    first: int | None = None
    last: int | None = None


class Summary(msgspec.Struct, frozen=True, rename="pascal"):
    """The detail of a ``Tocsin Run Summary``: what a run came to. ``summary`` are actions,
    ``silences`` those of the watch file that cover all of the job.
    """

    training_job_name: _Job
    run: _Run
    dedup_id: _Name
    sequence: Annotated[int, msgspec.Meta(ge=0)] = 0
    ending: str = ""
    steps: Steps = Steps()
    rule_evaluation_status: RuleStatus | None = None
    debug_rule_evaluation_statuses: list[Status] = []
    summary: list[str] = []
    dry_run: bool = False
    evaluated_at: str | None = None
    run_id: str | None = None
    silences: list[Silenced] = []


class _Envelope(msgspec.Struct, frozen=True, rename={"detail_type": "detail-type"}):
    detail_type: Literal["Tocsin Rule Evaluation Status Change", "Tocsin Run Summary"]
    source: Literal["tocsin"]
    detail: msgspec.Raw


_envelope = msgspec.json.Decoder(_Envelope)
_details: dict[str, msgspec.json.Decoder[Any]] = {
    "Tocsin Rule Evaluation Status Change": msgspec.json.Decoder(Alert),
    "Tocsin Run Summary": msgspec.json.Decoder(Summary),
}


class BadAlert(ValueError):
    """The message is no alert of ours; the text says which field is wrong and how."""


def decode(body: str | bytes) -> Alert | Summary:
    """What the EventBridge envelope ``body`` carries. BadAlert if it is nothing of the kind."""
    try:
        envelope = _envelope.decode(body)
        found: Alert | Summary = _details[envelope.detail_type].decode(envelope.detail)
        return found
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadAlert(f"not an event of Tocsin's: {error}") from None
