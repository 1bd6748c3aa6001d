"""The events that Tocsin publishes, and the names of its metrics.

A field ``training_job_name`` is ``TrainingJobName`` on the wire. The same objects are in a run's
checkpoint until they are published, on the bus, and in the group of ``act``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from tocsin.model import RuleStatus, Severity, Withdrawal

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
RUNS_NOT_WATCHED = "RunsNotWatched"
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
INTERVALS = (10.0, 24 * 3600.0)

_WITHDRAWALS = frozenset(Withdrawal)

Truncated: TypeAlias = bool | msgspec.UnsetType
"""True if an event is a short form of itself; only that has the field ``truncated``."""


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


class RelaunchPolicy(msgspec.Struct, frozen=True, rename="pascal"):
    """Options of the action ``relaunch``, which starts a stopped job again.

    attempts: how often at most.
    hyperparameters: what changes, by name: ``x0.3`` multiplies, a number replaces.
    """

    attempts: Annotated[int, msgspec.Meta(ge=1, le=9)] = 2
    hyperparameters: dict[str, str] = {}


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


class LastGood(msgspec.Struct, frozen=True, rename="pascal"):
    """The state of a training before the first sign of a fault.

    first_sign: the step of the first violation of a rule that fires.
    step: the last step before it that this rule judged healthy.
    checkpoint, checkpoint_step: path and last step of the newest checkpoint saved before it.
    """

    first_sign: int
    step: int | None = None
    checkpoint: str | None = None
    checkpoint_step: int | None = None

    @property
    def text(self) -> str:
        """The state for people, in one line."""
        healthy = "no step was judged healthy" if self.step is None else f"step {self.step}"
        if self.checkpoint is None:
            return f"{healthy}; no model checkpoint before step {self.first_sign}"
        return f"{healthy}; checkpoint of step {self.checkpoint_step}: {self.checkpoint}"


class NotRun(msgspec.Struct, frozen=True, rename="pascal"):
    """The steps that an ended training was to have, and did not run.

    hours: at the rate of the run; None if its files say nothing of time.
    usd: the price of these hours; None: unknown.
    """

    steps: int
    hours: float | None = None
    usd: float | None = None

    @property
    def text(self) -> str:
        """The steps for people, in one line."""
        hours = "an unknown time" if self.hours is None else f"{self.hours:.3g} hours"
        price = "at an unknown price" if self.usd is None else f"${self.usd:.2f}"
        return f"{self.steps} planned steps, {hours}, {price}"


class StatusChange(msgspec.Struct, frozen=True, rename="pascal"):
    """A rule has another status.

    sequence: the number of this change among those of its run, from 1 on; 0 if unknown.
    evidence: the numbers that decided; NaN and infinities are text.
    actions: any texts. A wrong one is refused when it is its turn; the others are taken.
    inhibits: names of rules that do not notify while this one fires.
    silences: of the watch file, if they cover the rule and the job.
    debug_rule_evaluation_statuses: all rules of the run, at the time of publication.
    last_good: of a rule that fires, where it is known.
    stop_saves: of a rule that fires with the action stop: what is not run if the training stops.
    relaunch: of a rule with the action ``relaunch``.
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
    last_good: LastGood | msgspec.UnsetType = msgspec.UNSET
    stop_saves: NotRun | msgspec.UnsetType = msgspec.UNSET
    relaunch: RelaunchPolicy | msgspec.UnsetType = msgspec.UNSET
    truncated: Truncated = msgspec.field(default=msgspec.UNSET, name="truncated")

    @property
    def firing(self) -> bool:
        return self.rule_evaluation_status is RuleStatus.ISSUES_FOUND

    @property
    def withdrawn(self) -> bool:
        """Return whether the rule no longer fires, and was not judged healthy."""
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
    not_run: the planned steps that it has not run after an alarm.
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
    not_run: NotRun | msgspec.UnsetType = msgspec.UNSET
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


def worst(statuses: Iterable[RuleStatus]) -> RuleStatus | None:
    """Return the most urgent of the statuses; None if there are none."""
    return min(statuses, key=WORST_FIRST.index, default=None)


def timestamp(seconds: float) -> str:
    """Seconds since the epoch in the form of the wire: ``2026-11-22T04:19:00.000Z``."""
    at = datetime.fromtimestamp(seconds, timezone.utc)
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
