"""What Tocsin says to the outside: its events, each field once, and the names of its metrics.

A field ``training_job_name`` is ``TrainingJobName`` on the wire. The same objects lie in a run's
checkpoint until they are published, travel over the bus, and are what ``act`` decides about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from tocsin.model import RuleStatus, Severity

SOURCE = "tocsin"
STATUS_CHANGE = "Tocsin Rule Evaluation Status Change"
RUN_SUMMARY = "Tocsin Run Summary"
CONFIGURATION_REFUSED = "Tocsin Configuration Refused"
ACTION_TAKEN = "Tocsin Action Taken"

METRIC_NAMESPACE = "Tocsin"
ISSUES_FOUND = "IssuesFound"
"""The metric that is 1 when a rule fires, and 0 when it resolves."""
TRAINING_SCALAR = "TrainingScalar"
"""The metric of the action ``metric`` that names no other."""

# Of the deployment itself: what its functions count and its dashboard and alarms read.
STEPS_EVALUATED = "StepsEvaluated"
EVALUATION_LAG = "EvaluationLag"
RULE_ERRORS = "RuleErrors"
ALERTS_SENT = "AlertsSent"
ALERTS_HELD = "AlertsHeld"
ACTIONS_FAILED = "ActionsFailed"
STOP_GUARD_TRIPPED = "StopGuardTripped"

WORST_FIRST = (
    RuleStatus.ISSUES_FOUND,
    RuleStatus.ERROR,
    RuleStatus.STOPPED,
    RuleStatus.IN_PROGRESS,
    RuleStatus.NO_ISSUES_FOUND,
    RuleStatus.NOT_APPLICABLE,
)
"""Rule statuses from the most urgent to the least."""

MOST_SEVERE_FIRST = tuple(reversed(Severity))

Ending = Literal["marker", "silence"]
Evidence = dict[str, bool | int | float | str | None]

LONGEST_WAIT = 900.0
SHORTEST_REPEAT = 300.0


class NotifyPolicy(msgspec.Struct, frozen=True, rename="pascal"):
    """How a run's alerts are put together; times in seconds.

    group_wait: until the first message, which collects what comes meanwhile.
    repeat_interval: after which a rule that still fires is notified again.
    send_resolved: whether there is a notification when it no longer fires.
    summary: actions that report the end of a run.
    """

    group_wait: float = 10.0
    repeat_interval: float = 4 * 3600.0
    send_resolved: bool = True
    summary: tuple[str, ...] = ()

    @property
    def wait(self) -> float:
        """``group_wait`` within its bounds."""
        return min(max(self.group_wait, 0.0), LONGEST_WAIT)

    @property
    def repeat(self) -> float:
        """``repeat_interval`` within its bounds."""
        return max(self.repeat_interval, SHORTEST_REPEAT)


class RunSilence(msgspec.Struct, frozen=True, rename="pascal"):
    """A silence of the watch file that covers the rule; ``job`` is a glob."""

    until: Annotated[datetime, msgspec.Meta(tz=True)]
    job: str = "*"
    author: str = ""
    reason: str = ""
    id: str = ""


class RuleStatusEntry(msgspec.Struct, frozen=True, rename="pascal"):
    """A rule's status, in the shape of DescribeTrainingJob."""

    rule_configuration_name: str
    rule_evaluation_status: RuleStatus
    status_details: str = ""
    last_modified_time: str | None = None


class StatusChange(msgspec.Struct, frozen=True, rename="pascal"):
    """A rule's status became another.

    sequence: the number of this change among those of its run, from 1 on; 0 if unknown.
    evidence: the numbers that decided; NaN and infinities are text.
    actions: any texts. A wrong one is refused when its turn comes, and costs no other.
    inhibits: names of rules that do not notify while this one fires.
    silences: those of the watch file that cover the rule and the job.
    debug_rule_evaluation_statuses: all rules of the run, as of publication.
    """

    training_job_name: str
    run: str
    rule_configuration_name: str
    rule: str
    rule_evaluation_status: RuleStatus
    dedup_id: str
    previous_status: RuleStatus | None = None
    status_details: str = ""
    severity: Severity = Severity.WARNING
    step: int | None = None
    mode: str | None = None
    mode_step: int | None = None
    worker: str | None = None
    tensor: str | None = None
    reason: str | None = None
    evidence: Evidence = {}
    actions: tuple[str, ...] = ()
    dry_run: bool = False
    index_last_modified: str | None = None
    evaluated_at: str | None = None
    run_id: str | None = None
    sequence: int = 0
    inhibits: tuple[str, ...] = ()
    notify: NotifyPolicy = NotifyPolicy()
    silences: tuple[RunSilence, ...] = ()
    debug_rule_evaluation_statuses: tuple[RuleStatusEntry, ...] = ()

    @property
    def firing(self) -> bool:
        return self.rule_evaluation_status is RuleStatus.ISSUES_FOUND


class EvaluatedSteps(msgspec.Struct, frozen=True):
    """How many steps were evaluated, and the numbers of the first and the last."""

    evaluated: int = 0
    first: int | None = None
    last: int | None = None


class RunSummary(msgspec.Struct, frozen=True, rename="pascal"):
    """A run has ended.

    sequence: that of the run's last status change.
    rule_evaluation_status: the worst of all rules; None without rules.
    summary: the actions that report it.
    silences: those of the watch file that cover all rules of the job.
    """

    training_job_name: str
    run: str
    dedup_id: str
    sequence: int = 0
    ending: str = ""
    steps: EvaluatedSteps = EvaluatedSteps()
    rule_evaluation_status: RuleStatus | None = None
    debug_rule_evaluation_statuses: tuple[RuleStatusEntry, ...] = ()
    summary: tuple[str, ...] = ()
    notify: NotifyPolicy = NotifyPolicy()
    dry_run: bool = False
    evaluated_at: str | None = None
    run_id: str | None = None
    silences: tuple[RunSilence, ...] = ()


class ConfigurationRefused(msgspec.Struct, frozen=True, rename="pascal"):
    """A part of a run's own configuration cannot be used; the rest of it is."""

    training_job_name: str
    run: str
    run_id: str | None
    where: str
    detail: str
    dedup_id: str


class ActionTaken(msgspec.Struct, frozen=True, rename="pascal"):
    """An action was taken for a rule, or refused, or failed; ``target`` follows its colon."""

    training_job_name: str
    run: str
    run_id: str | None
    rule_configuration_name: str
    action: str
    target: str | None
    outcome: str
    reason: str
    detail: str
    dedup_id: str


RunEvent: TypeAlias = StatusChange | RunSummary | ConfigurationRefused
"""What ``evaluate`` publishes about a run."""

Event: TypeAlias = RunEvent | ActionTaken

DETAIL_TYPES: dict[type[Event], str] = {
    StatusChange: STATUS_CHANGE,
    RunSummary: RUN_SUMMARY,
    ConfigurationRefused: CONFIGURATION_REFUSED,
    ActionTaken: ACTION_TAKEN,
}


class BadEvent(ValueError):
    """The message is not an event that ``act`` handles; the text says which field is wrong."""


class _Envelope(msgspec.Struct, frozen=True, rename={"detail_type": "detail-type"}):
    detail_type: str
    source: str
    detail: msgspec.Raw


_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
_Step = Annotated[int, msgspec.Meta(ge=0, lt=10**18)]


class _Bounds(msgspec.Struct, frozen=True, rename="pascal"):
    """What becomes part of an address or a key. Texts are cleaned where they are written."""

    training_job_name: Annotated[
        str, msgspec.Meta(max_length=1024, pattern=r"\A[^\x00-\x1f\x7f/]+\Z")
    ]
    run: Annotated[
        str,
        msgspec.Meta(
            max_length=1100,
            pattern=r"\As3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9](/[^\x00-\x1f\x7f]+)?\Z",
        ),
    ]
    dedup_id: _Name
    rule_configuration_name: _Name = "-"
    rule: _Name = "-"
    step: _Step | None = None
    mode_step: _Step | None = None
    sequence: Annotated[int, msgspec.Meta(ge=0)] = 0


class _EntryBounds(msgspec.Struct, frozen=True, rename="pascal"):
    rule_configuration_name: _Name


class _SummaryBounds(_Bounds, frozen=True, rename="pascal"):
    debug_rule_evaluation_statuses: tuple[_EntryBounds, ...] = ()


_Decoder: TypeAlias = msgspec.json.Decoder[Any]
_envelope = msgspec.json.Decoder(_Envelope)
_bounds = msgspec.json.Decoder(_Bounds)
_details: dict[tuple[str, str], tuple[_Decoder, _Decoder]] = {
    (SOURCE, STATUS_CHANGE): (_bounds, msgspec.json.Decoder(StatusChange)),
    (SOURCE, RUN_SUMMARY): (
        msgspec.json.Decoder(_SummaryBounds),
        msgspec.json.Decoder(RunSummary),
    ),
}


def decode(body: str | bytes) -> StatusChange | RunSummary:
    """The event in EventBridge's envelope ``body``. Raises BadEvent if it is not one of the two."""
    try:
        envelope = _envelope.decode(body)
        decoders = _details.get((envelope.source, envelope.detail_type))
        if decoders is None:
            raise BadEvent(
                f"not an event for `act`: {envelope.detail_type!r:.100} of {envelope.source!r:.100}"
            )
        bounds, details = decoders
        bounds.decode(envelope.detail)
        event: StatusChange | RunSummary = details.decode(envelope.detail)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadEvent(f"not an event of Tocsin's: {error}") from None
    return event


def checked(change: StatusChange) -> StatusChange:
    """The change, if ``decode`` would take it. Raises BadEvent."""
    try:
        _bounds.decode(msgspec.json.encode(change))
    except msgspec.DecodeError as error:
        raise BadEvent(f"not an event of Tocsin's: {error}") from None
    return change


def encode(event: Event, most: int) -> str:
    """The detail as JSON, in at most ``most`` bytes of UTF-8.

    The least informative parts are left out first: the details of other rules' statuses, then the
    last of these statuses; then all silences but the longest, which has the same effect; at last
    the evidence of a rule that may be anybody's.
    """
    data = b""
    for smaller in _ever_smaller(event):
        data = msgspec.json.encode(smaller)
        if len(data) <= most:
            break
    return data.decode()


def _ever_smaller(event: Event) -> Iterator[Event]:
    yield event
    if not isinstance(event, StatusChange | RunSummary):
        return
    replace = msgspec.structs.replace
    statuses = tuple(
        replace(each, status_details="") for each in event.debug_rule_evaluation_statuses
    )
    while statuses:
        yield replace(event, debug_rule_evaluation_statuses=statuses)
        statuses = statuses[: len(statuses) // 2]
    event = replace(event, debug_rule_evaluation_statuses=())
    yield event
    event = replace(event, silences=event.silences[-1:])
    yield event
    if isinstance(event, StatusChange):
        yield replace(event, evidence={}, tensor=None, worker=None)


def dedup_id(*identity: object) -> str:
    """The same id for the same event, however often it is found."""
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:32]


def worst(statuses: Iterable[RuleStatus]) -> RuleStatus | None:
    """The most urgent of the statuses; None if there are none."""
    return min(statuses, key=WORST_FIRST.index, default=None)


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as the wire has them: ``2026-11-22T04:19:00.000Z``."""
    at = datetime.fromtimestamp(seconds, timezone.utc)
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
