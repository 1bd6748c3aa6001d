"""The table of runs on the dashboard."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from tocsin.aws.settings import CHECKPOINTS, FleetSettings

from tocsin_cdk.constants import FUNCTIONS
from tocsin_cdk.function import PythonFunction
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.state import State

MEMORY = 512


class Fleet(Construct):
    """The function ``fleet``, which reads checkpoints and nothing else.

    CloudWatch calls it with the viewer's permissions, which need ``lambda:InvokeFunction`` on it.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        options: DeploymentOptions,
        layer: lambda_.ILayerVersion,
        state: State,
    ) -> None:
        super().__init__(scope, id_)
        self.fleet = PythonFunction(
            self,
            "Fleet",
            folder=FUNCTIONS / "fleet",
            options=options,
            layers=[layer],
            timeout=Duration.seconds(25),  # CloudWatch waits for 30
            memory=MEMORY,
            settings=FleetSettings(state_bucket=state.bucket.bucket_name),
        )
        state.grant_read(self.fleet, CHECKPOINTS)

    @property
    def widget(self) -> cloudwatch.CustomWidget:
        """The table, drawn again at each refresh of the dashboard."""
        return cloudwatch.CustomWidget(
            title="Runs",
            function_arn=self.fleet.function.function_arn,
            width=24,
            height=8,
            update_on_refresh=True,
            update_on_resize=False,
            update_on_time_range_change=False,
        )
