"""The bus of the deployment, on which only its own functions may publish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from aws_cdk import Aws
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from constructs import Construct


class BusWithPolicy(events.EventBus):
    """Status changes, and what was done about them."""

    def __init__(self, scope: Construct, id_: str, *, name: str) -> None:
        super().__init__(scope, id_, event_bus_name=name)
        self._name = name

    def close_to_all_but(self, roles: Sequence[iam.IRole]) -> None:
        """Denies PutEvents to all but these roles: events on the bus stop jobs.

        The policy is a property of the bus, which needs no resource of its own; it spells out the
        bus's ARN, because a resource cannot refer to itself.
        """
        bus = f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-bus/{self._name}"
        cast("events.CfnEventBus", self.node.default_child).policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Sid": "OnlyOurFunctionsPublish",
                    "Effect": "Deny",
                    "Principal": "*",
                    "Action": "events:PutEvents",
                    "Resource": bus,
                    "Condition": {
                        "ArnNotEquals": {"aws:PrincipalArn": [role.role_arn for role in roles]}
                    },
                }
            ],
        }
