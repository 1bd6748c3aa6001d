"""Who is told: topics for what rules found, for CloudWatch's alarm, and for Tocsin's health."""

from __future__ import annotations

from typing import Any

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
    with other attributes only, and each those for its own address, as in ``email:a@example.com``.

    ``health`` carries the alarms about Tocsin itself to all e-mail subscribers. It is a topic of
    its own because alarms have no attributes, and no filter policy lets such messages through:
    ``exists: false`` matches only where there is at least one other attribute.

    ``alarms`` carries the alarm on what rules found, to those of ``alarmEmails``, and no more.

    All are encrypted with one key of the deployment's own, since alarms cannot publish through
    the key that AWS manages. It goes with the stack.
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
        self.alarms = self._topic("Alarms", "Tocsin alarm")
        for email in options.emails:
            its_own = _on_action("email", f"email:{email}", {"exists": False})
            self.alerts.add_subscription(
                subscriptions.EmailSubscription(email, filter_policy=its_own)
            )
            self.health.add_subscription(subscriptions.EmailSubscription(email))
        for phone in options.phones:
            its_own = _on_action("sms", f"sms:{phone}")
            self.alerts.add_subscription(
                subscriptions.SmsSubscription(phone, filter_policy=its_own)
            )
        for email in options.alarm_emails:
            self.alarms.add_subscription(subscriptions.EmailSubscription(email))

    def _topic(self, id_: str, name: str) -> sns.Topic:
        topic = sns.Topic(self, id_, display_name=name, master_key=self.key, enforce_ssl=True)
        topic.add_to_resource_policy(_publishers(["sns:Publish"], topic.topic_arn))
        return topic


def _on_action(*conditions: Any) -> dict[str, sns.SubscriptionFilter]:
    return {"action": sns.SubscriptionFilter(conditions=list(conditions))}


def _publishers(actions: list[str], resource: str) -> iam.PolicyStatement:
    """Alarms and EventBridge rules of this account, and of no other."""
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(service) for service in _PUBLISHERS],
        actions=actions,
        resources=[resource],
        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
    )
