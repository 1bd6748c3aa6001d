"""Alarms about Tocsin itself."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct
from tocsin.events import (
    ACTIONS_FAILED,
    CHECKPOINTS_UNREADABLE,
    METRIC_NAMESPACE,
    STOP_GUARD_TRIPPED,
)

from infra.queues import WorkQueue

_PERIOD = Duration.minutes(5)
_MINUTE = Duration.minutes(1)
_AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
_BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_ERRORS = 3  # in a period: a retry fixes one or two, and the rest become dead letters
_THROTTLES = 10
_FAILURES = 3  # the tries of one action in a quarter of an hour, however that falls


class Monitoring(Construct):
    """Alarms that notify ``topic``.

    They are about dead letters, functions that fail or are throttled, a missing patrol, stops
    that the stop guard holds back, actions that fail.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        functions: Mapping[str, lambda_.IFunction],
        queues: Mapping[str, WorkQueue],
        patrol: str,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, id_)
        self._topic = topic
        for name, work in queues.items():
            letters = work.dead_letters.metric_approximate_number_of_messages_visible(
                period=_MINUTE, statistic="Maximum"
            )
            self._alarm(f"{name}DeadLetters", letters, 1, f"{name} has dead letters")
        for name, function in functions.items():
            errors = function.metric_errors(period=_PERIOD)
            throttles = function.metric_throttles(period=_PERIOD)
            self._alarm(f"{name}Errors", errors, _ERRORS, f"{name} fails repeatedly")
            self._alarm(f"{name}Throttles", throttles, _THROTTLES, f"{name} is throttled")
        for id_, name, description in (
            ("StopGuard", STOP_GUARD_TRIPPED, "the stop guard left a job running"),
            ("Unreadable", CHECKPOINTS_UNREADABLE, "a run was evaluated again from its start"),
        ):
            happened = cloudwatch.Metric(
                namespace=METRIC_NAMESPACE, metric_name=name, statistic="Sum", period=_MINUTE
            )
            self._alarm(id_, happened, 1, description)
        failed = cloudwatch.Metric(
            namespace=METRIC_NAMESPACE,
            metric_name=ACTIONS_FAILED,
            statistic="Sum",
            period=Duration.minutes(15),
        )
        self._alarm("ActionsFailed", failed, _FAILURES, "actions fail repeatedly")
        cloudwatch.Alarm(
            self,
            "PatrolMissing",
            alarm_description="Tocsin: the patrol has not run for 15 minutes",
            metric=functions[patrol].metric_invocations(period=_PERIOD),
            threshold=1,
            evaluation_periods=3,
            comparison_operator=_BELOW,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        ).add_alarm_action(cloudwatch_actions.SnsAction(topic))

    def _alarm(
        self, id_: str, metric: cloudwatch.IMetric, threshold: int, description: str
    ) -> None:
        cloudwatch.Alarm(
            self,
            id_,
            alarm_description=f"Tocsin: {description}",
            metric=metric,
            threshold=threshold,
            evaluation_periods=1,
            comparison_operator=_AT_LEAST,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        ).add_alarm_action(cloudwatch_actions.SnsAction(self._topic))
