"""Alarms about Tocsin itself."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct
from tocsin.aws.settings import DUE_INDEX
from tocsin.events import (
    ACTIONS_FAILED,
    CHECKPOINTS_UNREADABLE,
    EVALUATION_LAG,
    RUNS_NOT_WATCHED,
    STOP_GUARD_TRIPPED,
)

from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.queues import WorkQueue
from tocsin_cdk.state import State

OPERATIONS = "docs/operations.md"
"""The page with a section for each alarm."""

_PERIOD = Duration.minutes(5)
_MINUTE = Duration.minutes(1)
_AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
_BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_ERRORS = 3  # in a period: a retry fixes one or two, and the rest become dead letters
_THROTTLES = 10
_FAILURES = 3  # the tries of one action in a quarter of an hour, however that falls
_OLDEST = 300  # seconds: a message that waits longer than a look every five minutes
_LAG = 60_000  # milliseconds: as long as the evaluation waits for a missing worker
_BUSY = 1500  # invocations of one slot in a period: one each 0.2 s, for half an hour


class Monitoring(Construct):
    """Alarms that notify ``topic``, when they begin and when they end.

    Each description names the section of the operations page that says what to do.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: DeploymentOptions,
        functions: Mapping[str, lambda_.IFunction],
        queues: Mapping[str, WorkQueue],
        state: State,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, id_)
        self._topic = topic
        self.alarms: list[cloudwatch.IAlarm] = []
        self._namespace = options.names.namespace
        for name, work in queues.items():
            self._queue_alarms(name, work)
        for name, function in functions.items():
            errors = function.metric_errors(period=_PERIOD)
            throttles = function.metric_throttles(period=_PERIOD)
            self._alarm(f"{name}Errors", errors, _ERRORS, f"{name} fails repeatedly", "errors")
            self._alarm(
                f"{name}Throttles", throttles, _THROTTLES, f"{name} is throttled", "throttles"
            )
        self._table_alarms(state)
        lag = self._own(EVALUATION_LAG, "p95", _PERIOD)
        self._alarm("Lag", lag, _LAG, "steps are evaluated late", "lag", periods=3)
        busy = functions["Evaluate"].metric_invocations(period=_PERIOD)
        most = _BUSY * options.concurrency["evaluate"]
        self._alarm("Loop", busy, most, "Evaluate runs without pause", "loop", periods=6)
        for id_, name, text, section in (
            ("StopGuard", STOP_GUARD_TRIPPED, "the stop guard left a job running", "stop-guard"),
            (
                "Unreadable",
                CHECKPOINTS_UNREADABLE,
                "a run was evaluated again from its start",
                "unreadable-checkpoint",
            ),
        ):
            self._alarm(id_, self._own(name, "Sum", _MINUTE), 1, text, section)
        unwatched = self._own(RUNS_NOT_WATCHED, "Sum", Duration.hours(1))
        text = "a run cannot be watched"
        self._alarm("NotWatched", unwatched, 1, text, "runs-not-watched")
        failed = self._own(ACTIONS_FAILED, "Sum", Duration.minutes(15))
        self._alarm("ActionsFailed", failed, _FAILURES, "actions fail repeatedly", "actions")
        self._alarm(
            "PatrolMissing",
            functions["Patrol"].metric_invocations(period=_PERIOD),
            1,
            "the patrol has not run for 15 minutes",
            "patrol",
            periods=3,
            comparison=_BELOW,
            missing=cloudwatch.TreatMissingData.BREACHING,
        )

    def _queue_alarms(self, name: str, work: WorkQueue) -> None:
        letters = work.dead_letters.metric_approximate_number_of_messages_visible(
            period=_MINUTE, statistic="Maximum"
        )
        self._alarm(f"{name}DeadLetters", letters, 1, f"{name} has dead letters", "dead-letters")
        age = work.queue.metric_approximate_age_of_oldest_message(
            period=_MINUTE, statistic="Maximum"
        )
        text = f"messages wait for {name}"
        self._alarm(f"{name}Waiting", age, _OLDEST, text, "waiting-messages", periods=5)

    def _table_alarms(self, state: State) -> None:
        """Throttled reads and writes of the table, and of its index, which counts its own."""
        table = {"TableName": state.table.table_name}
        index = {**table, "GlobalSecondaryIndexName": DUE_INDEX}
        for noun, dimensions in (("table", table), ("index", index)):
            for verb in ("Read", "Write"):
                throttled = cloudwatch.Metric(
                    namespace="AWS/DynamoDB",
                    metric_name=f"{verb}ThrottleEvents",
                    dimensions_map=dimensions,
                    statistic="Sum",
                    period=_PERIOD,
                )
                id_ = f"{noun.capitalize()}{verb}Throttles"
                text = f"the {noun} is throttled"
                self._alarm(id_, throttled, _THROTTLES, text, "throttles")

    def _own(self, name: str, statistic: str, period: Duration) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=self._namespace, metric_name=name, statistic=statistic, period=period
        )

    def _alarm(
        self,
        id_: str,
        metric: cloudwatch.IMetric,
        threshold: int,
        text: str,
        section: str,
        *,
        periods: int = 1,
        comparison: cloudwatch.ComparisonOperator = _AT_LEAST,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            id_,
            alarm_description=f"Tocsin: {text}; what to do: {OPERATIONS}#{section}",
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=comparison,
            treat_missing_data=missing,
        )
        notify = cloudwatch_actions.SnsAction(self._topic)
        alarm.add_alarm_action(notify)
        alarm.add_ok_action(notify)
        self.alarms.append(alarm)
