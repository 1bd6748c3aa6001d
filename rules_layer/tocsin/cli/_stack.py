"""The deployed stack as the terminal finds it: its state bucket, table and topic."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from tocsin.cli._errors import Problem

STACK = "Tocsin"
CONNECTIONS = 16


@dataclass(frozen=True)
class Place:
    """Something of the stack's: what it is, the stack's output that names it, and the option and
    the variable that name another.
    """

    noun: str
    output: str
    option: str
    variable: str


BUCKET = Place("bucket", "StateBucketName", "--state-bucket", "TOCSIN_STATE_BUCKET")
TABLE = Place("table", "StateTableName", "--table", "TOCSIN_STATE_TABLE")
TOPIC = Place("topic", "AlertTopicArn", "--topic", "TOCSIN_TOPIC_ARN")


def aws(service: str) -> Any:
    """A client of whatever AWS the environment names."""
    config = Config(
        retries={"mode": "standard", "max_attempts": 5},
        max_pool_connections=CONNECTIONS,
        connect_timeout=5,
        read_timeout=30,
    )
    return boto3.client(service, config=config)


@dataclass(frozen=True)
class Deployment:
    """What options say of a deployment: the stack's name, and places named one by one."""

    stack: str | None = None
    named: Mapping[Place, str | None] = field(default_factory=dict)

    def find(self, place: Place) -> str:
        """The one named, that of the stack named, the environment's, or the default stack's.
        Raises Problem where there is none.
        """
        if name := self.named.get(place):
            return name
        if self.stack is None and (name := os.environ.get(place.variable)):
            return name
        stack, outputs = self.stack or STACK, self._outputs
        if outputs is None:
            raise Problem(f"there is no stack {stack}: {_hint(place)}")
        if place.output not in outputs:
            raise Problem(f"stack {stack} has no output {place.output}: {_hint(place)}")
        return outputs[place.output]

    @cached_property
    def _outputs(self) -> Mapping[str, str] | None:
        """By name; None where there is no such stack."""
        try:
            answer = aws("cloudformation").describe_stacks(StackName=self.stack or STACK)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":
                raise
            return None
        outputs = answer["Stacks"][0].get("Outputs", ())
        return {output["OutputKey"]: output["OutputValue"] for output in outputs}


def _hint(place: Place) -> str:
    named = f"{place.option} or {place.variable}"
    return f"name the {place.noun} with {named}, or the stack with --stack"
