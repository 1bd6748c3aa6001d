"""Names that the stack and its functions share: environment variables, keys, prefixes.

`infra` writes the environments from these classes and the functions read them at cold start.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_origin

import msgspec

from tocsin.events import METRIC_NAMESPACE
from tocsin.parsing import (
    DEFAULT_STOP_LIMIT,
    MOST_STOPS,
    StopLimit,
    list_items,
    stop_limit,
)

CHECKPOINTS = "checkpoints/"
"""The prefix of all checkpoints in the state bucket."""

TRACES = "traces/"
"""The prefix of all traces in the state bucket."""

REPORTS = "reports/"
"""The prefix of all reports in the state bucket."""

REPLAYS = "replays/"
"""The prefix of all replays in the state bucket."""

DUE_INDEX = "due"
"""The table's index of the runs and groups that have to be looked at, and when."""

DUE_SHARDS = 16
"""The index's partitions, each with its own throughput. With fewer, items of others are lost."""

RUN_PREFIX = "run#"
"""The table's keys of runs begin with it; the run's URL follows."""

GROUP_PREFIX = "alerts#"
"""The table's keys of groups of alerts begin with it; the run's URL follows."""

PREFIX_TAG = "tocsin-prefix"
"""The tag that gives a training role its prefix."""


def filter_policy(protocol: str, endpoint: str) -> dict[str, list[str]]:
    """Return the filter policy of a recipient's subscription to the alert topic.

    The stack and ``act`` subscribe with the same one: SNS refuses a second, different one.
    """
    return {"action": [f"{protocol}:{endpoint}"]}


STAGE_PATTERN = r"[a-z][a-z0-9-]{0,19}"
"""A stage's name, as it may stand in the names of resources."""


@dataclass(frozen=True)
class Names:
    """The names of a deployment. Each stage has its own; without a stage they have no suffix.

    stack: of CloudFormation.
    bus: of EventBridge.
    namespace: of CloudWatch's metrics.
    webhooks: the prefix of the SSM parameters that hold a webhook's URL and secret.
    """

    stage: str = ""

    @property
    def stack(self) -> str:
        return self._own("Tocsin")

    @property
    def bus(self) -> str:
        return self._own("tocsin")

    @property
    def namespace(self) -> str:
        return self._own(METRIC_NAMESPACE)

    @property
    def webhooks(self) -> str:
        return f"/{self._own('tocsin')}/webhooks/"

    def _own(self, name: str) -> str:
        return f"{name}-{self.stage}" if self.stage else name


_Text = Annotated[str, msgspec.Meta(min_length=1)]
S = TypeVar("S", bound="FunctionSettings")


class FunctionSettings(msgspec.Struct, frozen=True, rename=lambda name: f"TOCSIN_{name.upper()}"):
    """Field ``table`` is the variable ``TOCSIN_TABLE``, and so on; lists have commas."""

    @classmethod
    def read(cls: type[S], environment: Mapping[str, str] = os.environ) -> S:
        """Raises ValueError that names the variable which is missing or wrong."""
        given: dict[str, Any] = dict(environment)
        for field in msgspec.structs.fields(cls):
            if get_origin(field.type) is tuple and field.encode_name in given:
                given[field.encode_name] = list_items(given[field.encode_name])
        try:
            return msgspec.convert(given, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"the function's environment is wrong: {error}") from error

    @classmethod
    def variable(cls, field: str) -> str:
        """Return the name of the variable that holds this field."""
        return next(each.encode_name for each in msgspec.structs.fields(cls) if each.name == field)

    def variables(self) -> dict[str, str]:
        """Return the environment from which ``read`` makes the same settings."""
        values = {
            field.encode_name: getattr(self, field.name) for field in msgspec.structs.fields(self)
        }
        return {name: _text(value) for name, value in values.items() if value is not None}


class EvaluateSettings(FunctionSettings, frozen=True):
    """The environment of ``evaluate``.

    job_metrics: whether ``IssuesFound`` is also by training job.
    metric_run_cap: the most metrics of one run in a month.
    capture_prefix: below it the first folder of a run is its owner.
    backlog_turns: how many runs of one owner that have a backlog are looked at at a time.
    prices: US dollars per hour by type of instance, each as ``ml.g5.xlarge=1.41``.
    """

    table: _Text
    state_bucket: _Text
    evaluate_queue_url: _Text
    bus: _Text
    job_metrics: bool = True
    metric_run_cap: Annotated[int, msgspec.Meta(ge=0)] = 100
    capture_prefix: str = ""
    backlog_turns: Annotated[int, msgspec.Meta(ge=1)] = 1
    stage: str | None = None
    member_roles: tuple[str, ...] = ()
    prices: tuple[str, ...] = ()

    @property
    def by_type(self) -> dict[str, float]:
        """``prices`` by type of instance."""
        pairs = (each.partition("=") for each in self.prices)
        return {kind: float(price) for kind, _, price in pairs}


class ActSettings(FunctionSettings, frozen=True):
    """The environment of ``act``.

    deliverers: how many invocations may do more than decide and stop at a time.
    emails, phones: the recipients that the deployment subscribes itself.
    allowed_recipients: the recipients that a rule may name beside those.
    webhooks: the names of the deployment's webhooks.
    sms_monthly_cap: the most SMS in a calendar month.
    stop_guard: the stop guard's limit, runs of one owner per time.
    stop_ceiling: the stop guard's limit for all; empty: five times that of one owner.
    sms_run_cap: the most SMS of one run in a month; None: a quarter of the deployment's.
    email_run_cap: the most e-mails of one run in a day.
    metric_run_cap: the most metrics of one run.
    webhook_run_cap: the most posts to webhooks of one run in a day.
    capture_prefix: below it the first folder of a run is its owner.
    dashboard: the URL that messages refer to.
    stage: of the deployment's names; None for the plain ones.
    member_roles: by which jobs in other accounts are described and stopped.
    relaunch_roles: of the jobs that may be started again.
    relaunch_machine: the state machine that starts them.
    """

    table: _Text
    bus: _Text
    topic_arn: Annotated[str, msgspec.Meta(pattern=r"\Aarn:[^:]+:sns:")]
    state_bucket: _Text
    act_queue_url: _Text
    emails: tuple[str, ...] = ()
    phones: tuple[str, ...] = ()
    allowed_recipients: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    sms_monthly_cap: Annotated[int, msgspec.Meta(ge=0)] = 100
    stop_guard: str = DEFAULT_STOP_LIMIT
    stop_ceiling: str = ""
    sms_run_cap: Annotated[int, msgspec.Meta(ge=0)] | None = None
    email_run_cap: Annotated[int, msgspec.Meta(ge=0)] = 100
    metric_run_cap: Annotated[int, msgspec.Meta(ge=0)] = 100
    deliverers: Annotated[int, msgspec.Meta(ge=1)] = 1
    webhook_run_cap: Annotated[int, msgspec.Meta(ge=0)] = 100
    capture_prefix: str = ""
    dashboard: str = ""
    stage: str | None = None
    member_roles: tuple[str, ...] = ()
    relaunch_roles: tuple[str, ...] = ()
    relaunch_machine: str | None = None

    def __post_init__(self) -> None:
        try:
            stop_limit(self.stop_guard)
        except ValueError as error:
            raise ValueError(f"TOCSIN_STOP_GUARD: {error}") from error
        try:
            _ = self.ceiling
        except ValueError as error:
            raise ValueError(f"TOCSIN_STOP_CEILING: {error}") from error

    @property
    def stop_limit(self) -> StopLimit:
        """``stop_guard`` in numbers."""
        return stop_limit(self.stop_guard)

    @property
    def ceiling(self) -> StopLimit:
        """``stop_ceiling`` in numbers."""
        if self.stop_ceiling:
            return stop_limit(self.stop_ceiling)
        one = self.stop_limit
        return StopLimit(min(5 * one.most, MOST_STOPS), one.seconds)

    @property
    def texts_of_run(self) -> int:
        """``sms_run_cap``, or what follows from the deployment's cap."""
        if self.sms_run_cap is not None:
            return self.sms_run_cap
        return math.ceil(self.sms_monthly_cap / 4)


class PatrolSettings(FunctionSettings, frozen=True):
    """The environment of ``patrol``."""

    table: _Text
    evaluate_queue_url: _Text
    act_queue_url: _Text


class FleetSettings(FunctionSettings, frozen=True):
    """The environment of ``fleet``."""

    state_bucket: _Text


class ReplaySettings(FunctionSettings, frozen=True):
    """The environment of ``replay``."""

    state_bucket: _Text


class RelaunchSettings(FunctionSettings, frozen=True):
    """The environment of ``relaunch``.

    deployment: the value of the tag of each job that it starts.
    roles: of the jobs that it may start.
    """

    deployment: _Text
    roles: tuple[str, ...]


class ReportSettings(FunctionSettings, frozen=True):
    """The environment of ``report``."""

    table: _Text
    state_bucket: _Text
    report_queue_url: _Text


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
