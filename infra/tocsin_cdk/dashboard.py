"""The dashboard of the deployment, in CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from tocsin.events import (
    ACTIONS_FAILED,
    ALERTS_HELD,
    ALERTS_SENT,
    EVALUATION_LAG,
    ISSUES_FOUND,
    RULE_ERRORS,
    STEPS_EVALUATED,
    STOP_GUARD_TRIPPED,
)

from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.queues import WorkQueue
from tocsin_cdk.state import State

_TEXT = """\
**Runs** are below, the newest first. A rule that fires: `tocsin status JOB` has its numbers and \
what was done. An alarm: its description names the section that says what to do.
"""
_ANY_JOB = "any-training-job"
"""Stands where CloudWatch puts the job that a viewer chooses."""

_PERIOD = Duration.minutes(1)
_HOUR = Duration.hours(1)


class Dashboard(Construct):
    """Shows runs, alarms, findings of rules, notifications, the functions, and what costs.

    Its name is known before it is made, so that ``act``, which it shows, can link to it.
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
        runs: cloudwatch.IWidget,
        alarms: Sequence[cloudwatch.IAlarm],
    ) -> None:
        super().__init__(scope, id_)
        self.name = dashboard_name(Stack.of(self), options)
        own = options.names.namespace
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=self.name,
            default_interval=Duration.hours(6),
            variables=[_job_variable(own)] if options.job_metrics else [],
            widgets=[
                [
                    cloudwatch.TextWidget(markdown=_TEXT, width=8, height=4),
                    cloudwatch.AlarmStatusWidget(
                        title="Alarms", alarms=list(alarms), width=16, height=4
                    ),
                ],
                [runs],
                [
                    _graph("Issues found", [_by(own, "Rule", ISSUES_FOUND, "Sum")]),
                    _graph("Steps evaluated", [_any(own, STEPS_EVALUATED, "Sum")]),
                    _graph("Index file to verdict, ms", [_any(own, EVALUATION_LAG, "p95")]),
                ],
                [
                    _graph(
                        "Alerts, by reason",
                        [_by(own, "Reason", name, "Sum") for name in (ALERTS_SENT, ALERTS_HELD)],
                    ),
                    _graph("Messages waiting", _waiting(queues)),
                    _graph("Invocations", _invocations(functions)),
                ],
                [
                    _graph("Errors", _errors(own, functions)),
                    *([_graph("Issues of the chosen job", [_of_job(own)])] * options.job_metrics),
                ],
                [
                    _graph("Cost: Lambda, GB-s", _gigabyte_seconds(functions, options.memory)),
                    _graph("Cost: DynamoDB, request units", _request_units(state)),
                    _graph("Cost: CloudWatch, PutMetricData calls", [_metric_calls()]),
                ],
            ],
        )


def dashboard_url(stack: Stack, options: DeploymentOptions) -> str:
    """Return the URL of the dashboard of a deployment."""
    console = f"https://{stack.region}.console.aws.amazon.com/cloudwatch/home"
    return f"{console}?region={stack.region}#dashboards/dashboard/{dashboard_name(stack, options)}"


def dashboard_name(stack: Stack, options: DeploymentOptions) -> str:
    """Dashboards of all regions share their names."""
    return f"{options.names.stack}-{stack.region}"


def _waiting(queues: Mapping[str, WorkQueue]) -> list[cloudwatch.IMetric]:
    return [
        work.queue.metric_approximate_number_of_messages_visible(
            period=_PERIOD, statistic="Maximum", label=name
        )
        for name, work in queues.items()
    ]


def _invocations(functions: Mapping[str, lambda_.IFunction]) -> list[cloudwatch.IMetric]:
    return [f.metric_invocations(period=_PERIOD, label=name) for name, f in functions.items()]


def _errors(namespace: str, functions: Mapping[str, lambda_.IFunction]) -> list[cloudwatch.IMetric]:
    return [
        *(f.metric_errors(period=_PERIOD, label=name) for name, f in functions.items()),
        *(
            _any(namespace, name, "Sum")
            for name in (RULE_ERRORS, ACTIONS_FAILED, STOP_GUARD_TRIPPED)
        ),
    ]


def _job_variable(namespace: str) -> cloudwatch.DashboardVariable:
    """The jobs that have metrics, to choose one."""
    return cloudwatch.DashboardVariable(
        id="TrainingJobName",
        label="Training job",
        type=cloudwatch.VariableType.PATTERN,
        value=_ANY_JOB,
        input_type=cloudwatch.VariableInputType.SELECT,
        values=cloudwatch.Values.from_search_components(
            namespace=namespace,
            dimensions=["Rule", "TrainingJobName"],
            metric_name=ISSUES_FOUND,
            populate_from="TrainingJobName",
        ),
        default_value=cloudwatch.DefaultValue.FIRST,
        visible=True,
    )


def _of_job(namespace: str) -> cloudwatch.MathExpression:
    where = f'{{{namespace},Rule,TrainingJobName}} MetricName="{ISSUES_FOUND}"'
    return _search(f'{where} TrainingJobName="{_ANY_JOB}"', ISSUES_FOUND, "Maximum")


def _gigabyte_seconds(
    functions: Mapping[str, lambda_.IFunction], memory: Mapping[str, int]
) -> list[cloudwatch.IMetric]:
    return [
        cloudwatch.MathExpression(
            expression=f"{id_} / 1000 * {memory[id_] / 1024:g}",
            label=name,
            period=_HOUR,
            using_metrics={id_: function.metric_duration(statistic="Sum", period=_HOUR)},
        )
        for name, function in functions.items()
        if (id_ := name.lower())
    ]


def _request_units(state: State) -> list[cloudwatch.IMetric]:
    return [
        state.table.metric_consumed_read_capacity_units(period=_HOUR, label="read"),
        state.table.metric_consumed_write_capacity_units(period=_HOUR, label="write"),
    ]


def _metric_calls() -> cloudwatch.IMetric:
    """Of the whole account: AWS counts them for each service, not for each caller."""
    dimensions = {
        "Type": "API",
        "Resource": "PutMetricData",
        "Service": "CloudWatch",
        "Class": "None",
    }
    return cloudwatch.Metric(
        namespace="AWS/Usage",
        metric_name="CallCount",
        dimensions_map=dimensions,
        statistic="Sum",
        period=_HOUR,
        label="the account's",
    )


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8)


def _by(namespace: str, dimension: str, metric: str, statistic: str) -> cloudwatch.MathExpression:
    """One line per value of a dimension."""
    where = f'{{{namespace},{dimension}}} MetricName="{metric}"'
    return _search(where, metric, statistic)


def _any(namespace: str, metric: str, statistic: str) -> cloudwatch.MathExpression:
    """The metric with any dimensions."""
    return _search(f'Namespace="{namespace}" MetricName="{metric}"', metric, statistic)


def _search(where: str, label: str, statistic: str) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression=f"SEARCH('{where}', '{statistic}', 60)", label=label, using_metrics={}
    )
