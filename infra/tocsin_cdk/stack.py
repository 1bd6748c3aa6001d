"""The stack of a deployment by itself: the construct and nothing else."""

from __future__ import annotations

from aws_cdk import Stack, Tags
from constructs import Construct

from tocsin_cdk.construct import Tocsin
from tocsin_cdk.options import DeploymentOptions


class TocsinStack(Stack):
    """All of Tocsin on AWS, in one region of one account."""

    def __init__(self, scope: Construct, *, options: DeploymentOptions) -> None:
        description = "Tocsin watches training jobs from outside"
        super().__init__(scope, options.names.stack, description=description)
        # A construct called Default leaves no trace in the logical ids of what is in it.
        self.tocsin = Tocsin(self, "Default", options=options)
        for name, value in options.tags.items():
            Tags.of(self).add(name, value)
