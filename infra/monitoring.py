"""Watches the watchman: alarms about Tocsin itself, and a dashboard."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constants import METRIC_NAMESPACE
from infra.queues import WorkQueue

_PERIOD = Duration.minutes(5)
_AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
_BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_ERRORS = 3  # in a period: one or two are mended by the next try, and what is not is a dead letter
_THROTTLES = 10


class Monitoring(Construct):
    """Alarms go to ``topic``: dead letters, functions that fail or are throttled, no patrol."""

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
                period=Duration.minutes(1), statistic="Maximum"
            )
            self._alarm(f"{name}DeadLetters", letters, 1, f"{name} gave up on messages")
        for name, function in functions.items():
            errors = function.metric_errors(period=_PERIOD)
            throttles = function.metric_throttles(period=_PERIOD)
            self._alarm(f"{name}Errors", errors, _ERRORS, f"{name} fails again and again")
            self._alarm(f"{name}Throttles", throttles, _THROTTLES, f"{name} is throttled")
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
        self.dashboard = self._dashboard(functions, queues)

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

    def _dashboard(
        self, functions: Mapping[str, lambda_.IFunction], queues: Mapping[str, WorkQueue]
    ) -> cloudwatch.Dashboard:
        period = Duration.minutes(1)
        return cloudwatch.Dashboard(
            self,
            "Dashboard",
            default_interval=Duration.hours(6),
            widgets=[
                [
                    _graph("Issues found", [_found("Rule", "IssuesFound", "Sum")]),
                    _graph("Steps evaluated", [_any("StepsEvaluated", "Sum")]),
                    _graph("Index file to verdict, ms", [_any("EvaluationLag", "p95")]),
                ],
                [
                    _graph(
                        "Messages waiting",
                        [
                            work.queue.metric_approximate_number_of_messages_visible(
                                period=period, statistic="Maximum", label=name
                            )
                            for name, work in queues.items()
                        ],
                    ),
                    _graph(
                        "Invocations",
                        [
                            f.metric_invocations(period=period, label=n)
                            for n, f in functions.items()
                        ],
                    ),
                    _graph(
                        "Errors",
                        [
                            *(
                                f.metric_errors(period=period, label=n)
                                for n, f in functions.items()
                            ),
                            _any("RuleErrors", "Sum"),
                            _any("ActionsFailed", "Sum"),
                        ],
                    ),
                ],
            ],
        )


def _graph(title: str, metrics: list[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=8)


def _found(dimension: str, metric: str, statistic: str) -> cloudwatch.MathExpression:
    """One line per value of a dimension."""
    where = f'{{{METRIC_NAMESPACE},{dimension}}} MetricName="{metric}"'
    return _search(where, metric, statistic)


def _any(metric: str, statistic: str) -> cloudwatch.MathExpression:
    """The metric whatever its dimensions are."""
    return _search(f'Namespace="{METRIC_NAMESPACE}" MetricName="{metric}"', metric, statistic)


def _search(where: str, label: str, statistic: str) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression=f"SEARCH('{where}', '{statistic}', 60)", label=label, using_metrics={}
    )
