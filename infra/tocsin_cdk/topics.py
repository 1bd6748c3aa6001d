"""SNS topics: notifications of alerts, the CloudWatch alarm, and Tocsin's own health."""

from __future__ import annotations

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct
from tocsin.aws.settings import filter_policy

from tocsin_cdk.options import DeploymentOptions


class Topics(Construct):
    """Three topics, encrypted with one key.

    ``alerts`` has the notifications of ``act``. The message attribute ``action`` names its
    subscribers, as in ``email:a@example.com``: for all of the deployment it is an array of them.
    So a subscription that ``act`` made for a rule's recipient has the same filter, and adding that
    recipient to ``emails`` finds it there. With another filter SNS would refuse it.

    ``health`` has the alarms about Tocsin itself, for all e-mail subscribers. It is a topic of its
    own because alarms have no attributes, and no filter policy accepts such messages:
    ``exists: false`` matches only messages with at least one other attribute.

    ``alarms`` has only the alarm on findings, for ``alarmEmails``.

    The key belongs to the deployment, because alarms cannot publish through the key that AWS
    manages. It is deleted with the stack.
    """

    def __init__(self, scope: Construct, id_: str, *, options: DeploymentOptions) -> None:
        super().__init__(scope, id_)
        self.key = kms.Key(
            self,
            "Key",
            description="Tocsin's topics",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.key.add_to_resource_policy(_publishers(["kms:Decrypt", "kms:GenerateDataKey"], "*"))
        self.alerts = self._topic("Alerts", "Tocsin alerts")
        self.health = self._topic("Health", "Tocsin's own health")
        self.alarms = self._topic("Alarms", "Tocsin alarm")
        for email in options.emails:
            self.alerts.add_subscription(
                subscriptions.EmailSubscription(email, filter_policy=_own("email", email))
            )
            self.health.add_subscription(subscriptions.EmailSubscription(email))
        for phone in options.phones:
            self.alerts.add_subscription(
                subscriptions.SmsSubscription(phone, filter_policy=_own("sms", phone))
            )
        for email in options.alarm_emails:
            self.alarms.add_subscription(subscriptions.EmailSubscription(email))

    def _topic(self, id_: str, name: str) -> sns.Topic:
        topic = sns.Topic(self, id_, display_name=name, master_key=self.key, enforce_ssl=True)
        topic.add_to_resource_policy(_publishers(["sns:Publish"], topic.topic_arn))
        return topic


def _own(protocol: str, endpoint: str) -> dict[str, sns.SubscriptionFilter]:
    return {
        name: sns.SubscriptionFilter(conditions=list(values))
        for name, values in filter_policy(protocol, endpoint).items()
    }


def _publishers(actions: list[str], resource: str) -> iam.PolicyStatement:
    """Allow alarms of this account only."""
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
        actions=actions,
        resources=[resource],
        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
    )
