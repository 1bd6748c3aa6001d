"""Who is told: a topic for what rules found, and one for the watchman's own health."""

from __future__ import annotations

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.options import Options

_PUBLISHERS = ("cloudwatch.amazonaws.com", "events.amazonaws.com")


class Topics(Construct):
    """``alerts`` carries what ``act`` publishes. Its message attribute ``action`` decides who gets
    a message: SMS subscribers those for ``sms``, e-mail subscribers those for ``email`` and those
    with other attributes only.

    ``health`` carries the alarms about Tocsin itself to all e-mail subscribers. It is a topic of
    its own because alarms have no attributes, and no filter policy lets such messages through:
    ``exists: false`` matches only where there is at least one other attribute.

    Both are encrypted with one key of the deployment's own, since alarms cannot publish through
    the key that AWS manages. It costs a dollar a month and goes with the stack.
    """

    def __init__(self, scope: Construct, id_: str, *, options: Options) -> None:
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
        by_email = {"action": sns.SubscriptionFilter(conditions=["email", {"exists": False}])}
        by_sms = {"action": sns.SubscriptionFilter(conditions=["sms"])}
        for email in options.emails:
            self.alerts.add_subscription(
                subscriptions.EmailSubscription(email, filter_policy=by_email)
            )
            self.health.add_subscription(subscriptions.EmailSubscription(email))
        for phone in options.phones:
            self.alerts.add_subscription(subscriptions.SmsSubscription(phone, filter_policy=by_sms))

    def _topic(self, id_: str, name: str) -> sns.Topic:
        topic = sns.Topic(self, id_, display_name=name, master_key=self.key, enforce_ssl=True)
        topic.add_to_resource_policy(_publishers(["sns:Publish"], topic.topic_arn))
        return topic


def _publishers(actions: list[str], resource: str) -> iam.PolicyStatement:
    """Alarms and EventBridge rules of this account, and of no other."""
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(service) for service in _PUBLISHERS],
        actions=actions,
        resources=[resource],
        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
    )
