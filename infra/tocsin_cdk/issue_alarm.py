"""The CloudWatch alarm on findings: any rule of any run has fired."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_sns as sns
from constructs import Construct
from tocsin.events import ISSUES_FOUND


class IssueAlarm(Construct):
    """Is in alarm for a minute in which ``IssuesFound`` (no dimensions) is 1; notifies ``topic``.

    Returns to OK after that minute: the alarm reports a finding, not how long it lasts.
    """

    def __init__(self, scope: Construct, id_: str, *, namespace: str, topic: sns.ITopic) -> None:
        super().__init__(scope, id_)
        self.alarm = cloudwatch.Alarm(
            self,
            ISSUES_FOUND,
            alarm_description="Tocsin: a rule has fired; `tocsin status` says which, of which job",
            metric=cloudwatch.Metric(
                namespace=namespace,
                metric_name=ISSUES_FOUND,
                statistic="Sum",
                period=Duration.minutes(1),
            ),
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        self.alarm.add_alarm_action(cloudwatch_actions.SnsAction(topic))
