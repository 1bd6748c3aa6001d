"""The events that Tocsin publishes, and the names of its metrics.

A field ``training_job_name`` is ``TrainingJobName`` on the wire. The same objects are in a run's
checkpoint until they are published, on the bus, and in the group of ``act``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from tocsin.model import RuleStatus, Severity, Withdrawal
from tocsin.words import ascii_only, cut

SOURCE = "tocsin"
STATUS_CHANGE = "Tocsin Rule Evaluation Status Change"
RUN_SUMMARY = "Tocsin Run Summary"
CONFIGURATION_REFUSED = "Tocsin Configuration Refused"
RUN_NEWS = "Tocsin Run News"
ACTION_TAKEN = "Tocsin Action Taken"

METRIC_NAMESPACE = "Tocsin"
ISSUES_FOUND = "IssuesFound"
"""The metric that is 1 when a rule fires, and 0 when it resolves."""
TRAINING_SCALAR = "TrainingScalar"
"""The metric of the action ``metric`` that names no other."""

# Telemetry of the deployment, for its dashboard and alarms.
STEPS_EVALUATED = "StepsEvaluated"
EVALUATION_LAG = "EvaluationLag"
RULE_ERRORS = "RuleErrors"
CHECKPOINTS_UNREADABLE = "CheckpointsUnreadable"
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

_FEW = 50  # texts of a list, each at most a few hundred characters

LONGEST_WAIT = 900.0
SHORTEST_REPEAT = 300.0
INTERVALS = (10.0, 24 * 3600.0)


_WITHDRAWALS = frozenset(Withdrawal)


Truncated: TypeAlias = bool | msgspec.UnsetType
"""Whether an event is a short form of itself; only that has the field ``truncated``."""


class NotifyPolicy(msgspec.Struct, frozen=True, rename="pascal"):
    """Times of notification, in seconds.

    group_wait: until the first message, which collects all alerts until then.
    group_interval: from one message to the next, which collects all alerts until then.
    repeat_interval: after which a rule that still fires is notified again.
    send_resolved: whether there is a notification when it no longer fires.
    summary: actions that report the end of a run.
    """

    group_wait: float = 10.0
    repeat_interval: float = 4 * 3600.0
    send_resolved: bool = True
    summary: tuple[str, ...] = ()
    group_interval: float = 300.0

    @property
    def wait(self) -> float:
        """``group_wait`` within its bounds."""
        return min(max(self.group_wait, 0.0), LONGEST_WAIT)

    @property
    def interval(self) -> float:
        """``group_interval`` within its bounds."""
        return min(max(self.group_interval, INTERVALS[0]), INTERVALS[1])

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
    """A rule has another status.

    sequence: the number of this change among those of its run, from 1 on; 0 if unknown.
    evidence: the numbers that decided; NaN and infinities are text.
    actions: any texts. A wrong one is refused when it is its turn; the others are taken.
    inhibits: names of rules that do not notify while this one fires.
    silences: of the watch file, if they cover the rule and the job.
    debug_rule_evaluation_statuses: all rules of the run, at the time of publication.
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
    truncated: Truncated = msgspec.field(default=msgspec.UNSET, name="truncated")

    @property
    def firing(self) -> bool:
        return self.rule_evaluation_status is RuleStatus.ISSUES_FOUND

    @property
    def withdrawn(self) -> bool:
        """Whether the rule no longer fires, and was not judged healthy."""
        if self.firing:
            return False
        return self.rule_evaluation_status is RuleStatus.ERROR or self.reason in _WITHDRAWALS


class EvaluatedSteps(msgspec.Struct, frozen=True):
    """The number of evaluated steps, and the first and the last of them."""

    evaluated: int = 0
    first: int | None = None
    last: int | None = None


class RunSummary(msgspec.Struct, frozen=True, rename="pascal"):
    """A run has ended.

    sequence: of the run's last status change.
    rule_evaluation_status: the worst of all rules; None without rules.
    summary: the actions that report it.
    silences: of the watch file, if they cover all rules of the job.
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
    truncated: Truncated = msgspec.field(default=msgspec.UNSET, name="truncated")


class RunNews(msgspec.Struct, frozen=True, rename="pascal"):
    """All that `act` has to know of one commit of a run, so that it looks once. Private: others
    get each change by itself.
    """

    training_job_name: str
    run: str
    run_id: str | None
    dedup_id: str
    changes: tuple[StatusChange, ...] = ()
    summaries: tuple[RunSummary, ...] = ()


class ConfigurationRefused(msgspec.Struct, frozen=True, rename="pascal"):
    """A part of a run's own configuration cannot be used; the rest of it is."""

    training_job_name: str
    run: str
    run_id: str | None
    where: str
    detail: str
    dedup_id: str
    truncated: Truncated = msgspec.field(default=msgspec.UNSET, name="truncated")


class ActionTaken(msgspec.Struct, frozen=True, rename="pascal"):
    """An action for a rule was taken, was refused, or failed; ``target`` is after its colon."""

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
    truncated: Truncated = msgspec.field(default=msgspec.UNSET, name="truncated")


RunEvent: TypeAlias = StatusChange | RunSummary | ConfigurationRefused
"""The events that ``evaluate`` publishes."""

Event: TypeAlias = RunEvent | RunNews | ActionTaken

E = TypeVar("E", bound=Event)

DETAIL_TYPES: dict[type[Event], str] = {
    StatusChange: STATUS_CHANGE,
    RunSummary: RUN_SUMMARY,
    RunNews: RUN_NEWS,
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
    """Limits of fields that become part of an address or a key. Other texts are cleaned later."""

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


class _NewsBounds(_Bounds, frozen=True, rename="pascal"):
    changes: tuple[_Bounds, ...] = ()
    summaries: tuple[_SummaryBounds, ...] = ()


_Decoder: TypeAlias = msgspec.json.Decoder[Any]
_envelope = msgspec.json.Decoder(_Envelope)
_bounds = msgspec.json.Decoder(_Bounds)
_details: dict[tuple[str, str], tuple[_Decoder, _Decoder]] = {
    (SOURCE, STATUS_CHANGE): (_bounds, msgspec.json.Decoder(StatusChange)),
    (SOURCE, RUN_SUMMARY): (
        msgspec.json.Decoder(_SummaryBounds),
        msgspec.json.Decoder(RunSummary),
    ),
    (SOURCE, RUN_NEWS): (msgspec.json.Decoder(_NewsBounds), msgspec.json.Decoder(RunNews)),
}


def decode(body: str | bytes) -> StatusChange | RunSummary | RunNews:
    """The event in EventBridge's envelope ``body``. Raises BadEvent if it is none of these."""
    try:
        envelope = _envelope.decode(body)
        decoders = _details.get((envelope.source, envelope.detail_type))
        if decoders is None:
            raise BadEvent(
                f"not an event for `act`: {envelope.detail_type!r:.100} of {envelope.source!r:.100}"
            )
        bounds, details = decoders
        bounds.decode(envelope.detail)
        event: StatusChange | RunSummary | RunNews = details.decode(envelope.detail)
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
    last of these statuses; then all silences but the longest, which has the same effect; last
    the evidence, which a custom rule may make long; then it is the short form.
    """
    return msgspec.json.encode(fitted(event, most)).decode()


def fitted(event: E, most: int) -> E:
    """The event without its least informative parts, so that it takes at most ``most`` bytes."""
    smaller = event
    for smaller in _smaller_and_smaller(event):
        if len(msgspec.json.encode(smaller)) <= most:
            break
    return smaller


def run_news(events: Sequence[RunEvent], most: int) -> Iterator[RunNews]:
    """Collects the events of one run that need a decision of ``act``, in parts of ``most`` bytes.

    These are rules that fire or no longer do, and the end of the run.
    """
    part: list[StatusChange | RunSummary] = []
    size = 0
    for event in events:
        if isinstance(event, ConfigurationRefused):
            continue
        if isinstance(event, StatusChange):
            if not event.firing and event.previous_status is not RuleStatus.ISSUES_FOUND:
                continue
            event = msgspec.structs.replace(event, debug_rule_evaluation_statuses=())
        event = fitted(event, most)
        length = len(msgspec.json.encode(event))
        if part and size + length > most:
            yield _news(part)
            part, size = [], 0
        part.append(event)
        size += length
    if part:
        yield _news(part)


def _news(part: Sequence[StatusChange | RunSummary]) -> RunNews:
    first = part[0]
    return RunNews(
        first.training_job_name,
        first.run,
        first.run_id,
        dedup_id(*(each.dedup_id for each in part)),
        tuple(each for each in part if isinstance(each, StatusChange)),
        tuple(each for each in part if isinstance(each, RunSummary)),
    )


def shortened(event: E) -> E:
    """The event with what must arrive: who, which status, which actions; texts in plain ASCII."""
    replace = msgspec.structs.replace
    if isinstance(event, StatusChange):
        return replace(
            event,
            status_details=_short(event.status_details),
            actions=event.actions[:_FEW],
            inhibits=event.inhibits[:_FEW],
            silences=event.silences[-1:],
            evidence={},
            tensor=None,
            worker=None,
            debug_rule_evaluation_statuses=(),
            truncated=True,
        )
    if isinstance(event, RunSummary):
        silences = event.silences[-1:]
        return replace(event, silences=silences, debug_rule_evaluation_statuses=(), truncated=True)
    if isinstance(event, RunNews):
        changes, summaries = map(shortened, event.changes), map(shortened, event.summaries)
        return replace(event, changes=tuple(changes), summaries=tuple(summaries))
    return replace(event, detail=_short(event.detail), truncated=True)


def _short(text: str) -> str:
    return cut(ascii_only(text), 200)


def _smaller_and_smaller(event: Any) -> Iterator[Any]:
    yield event
    if isinstance(event, StatusChange | RunSummary):
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
    yield shortened(event)


def dedup_id(*identity: object) -> str:
    """An id that is the same each time the event is found."""
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:32]


def worst(statuses: Iterable[RuleStatus]) -> RuleStatus | None:
    """The most urgent of the statuses; None if there are none."""
    return min(statuses, key=WORST_FIRST.index, default=None)


def timestamp(seconds: float) -> str:
    """Seconds since the epoch in the form of the wire: ``2026-11-22T04:19:00.000Z``."""
    at = datetime.fromtimestamp(seconds, timezone.utc)
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
