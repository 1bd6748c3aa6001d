"""Watches the watchman: alarms about Tocsin itself."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct
from tocsin.events import METRIC_NAMESPACE, STOP_GUARD_TRIPPED

from infra.queues import WorkQueue

_PERIOD = Duration.minutes(5)
_MINUTE = Duration.minutes(1)
_AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
_BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_ERRORS = 3  # in a period: one or two are mended by the next try, and what is not is a dead letter
_THROTTLES = 10


class Monitoring(Construct):
    """Alarms go to ``topic``: dead letters, functions that fail or are throttled, no patrol, stops
    that the stop guard refused.
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
            self._alarm(f"{name}DeadLetters", letters, 1, f"{name} gave up on messages")
        for name, function in functions.items():
            errors = function.metric_errors(period=_PERIOD)
            throttles = function.metric_throttles(period=_PERIOD)
            self._alarm(f"{name}Errors", errors, _ERRORS, f"{name} fails again and again")
            self._alarm(f"{name}Throttles", throttles, _THROTTLES, f"{name} is throttled")
        refused = cloudwatch.Metric(
            namespace=METRIC_NAMESPACE,
            metric_name=STOP_GUARD_TRIPPED,
            statistic="Sum",
            period=_MINUTE,
        )
        self._alarm("StopGuard", refused, 1, "the stop guard left a job running")
        cloudwatch.Alarm(
            self,
            "PatrolMissing",
            alarm_description="Tocsin: the patrol has not run for a quarter of an hour",
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
