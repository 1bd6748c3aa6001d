"""Finds the deployed stack: its state bucket, table and topic."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tocsin.aws.clients import real_client
from tocsin.aws.cloudformation import stack_outputs
from tocsin.aws.settings import Names
from tocsin.cli.errors import CommandError


@dataclass(frozen=True)
class StackResource:
    """A resource of the stack that a command uses.

    output: the output of the stack that holds its name.
    option, variable: the option and the environment variable that name another.
    """

    noun: str
    output: str
    option: str
    variable: str


BUCKET = StackResource("bucket", "StateBucketName", "--state-bucket", "TOCSIN_STATE_BUCKET")
TABLE = StackResource("table", "StateTableName", "--table", "TOCSIN_STATE_TABLE")
QUEUE = StackResource(
    "evaluate queue", "EvaluateQueueUrl", "--stack or --stage", "TOCSIN_EVALUATE_QUEUE_URL"
)
CAPTURES = StackResource(
    "capture bucket", "CaptureBucketName", "--stack or --stage", "TOCSIN_CAPTURE_BUCKET"
)
REPLAYS = StackResource(
    "state machine of replays",
    "ReplayStateMachineArn",
    "--stack or --stage",
    "TOCSIN_REPLAY_STATE_MACHINE",
)
TOPIC = StackResource("topic", "AlertTopicArn", "--topic", "TOCSIN_TOPIC_ARN")


@dataclass(frozen=True)
class Deployment:
    """The deployment that the options name: by its stack or stage, or resource by resource."""

    stack: str | None = None
    named: Mapping[StackResource, str | None] = field(default_factory=dict)
    stage: str | None = None

    @property
    def stack_name(self) -> str:
        """The stack of ``--stack``, of ``--stage``, of TOCSIN_STAGE, or of no stage."""
        if self.stack is not None:
            return self.stack
        return Names(os.environ.get("TOCSIN_STAGE", "") if self.stage is None else self.stage).stack

    def find(self, resource: StackResource) -> str:
        """Return the name of a resource: from its option, the stack of ``--stack`` or ``--stage``,
        the environment, or the default stack. Raises CommandError if nothing names it.
        """
        if name := self.named.get(resource):
            return name
        if (
            self.stack is None
            and self.stage is None
            and (name := os.environ.get(resource.variable))
        ):
            return name
        stack, outputs = self.stack_name, self.outputs
        if outputs is None:
            raise CommandError(f"there is no stack {stack}: {_hint(resource)}")
        if resource.output not in outputs:
            raise CommandError(
                f"stack {stack} has no output {resource.output}: deploy it again with this "
                f"version, or {_hint(resource)}"
            )
        return outputs[resource.output]

    @cached_property
    def outputs(self) -> Mapping[str, str] | None:
        """By name; None if there is no such stack."""
        return stack_outputs(real_client("cloudformation"), self.stack_name)


def _hint(resource: StackResource) -> str:
    named = f"{resource.option} or {resource.variable}"
    return f"name the {resource.noun} with {named}, or the stack with --stack or --stage"
