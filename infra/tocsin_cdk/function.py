"""A Lambda function with a role and a log group of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct
from tocsin.aws.settings import FunctionSettings

from tocsin_cdk.bundle import staged_function
from tocsin_cdk.constants import PYTHON
from tocsin_cdk.nag import acknowledge, acknowledge_wildcards
from tocsin_cdk.options import DeploymentOptions


class PythonFunction(Construct):
    """The function whose handler is in ``folder``.

    Its role may write its log, and what ``allow`` adds. Logs are kept for ``retainDays``, and are
    deleted with the stack.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        folder: Path,
        options: DeploymentOptions,
        timeout: Duration,
        memory: int,
        layers: Sequence[lambda_.ILayerVersion] = (),
        settings: FunctionSettings | None = None,
        files: Mapping[str, str] | None = None,
        recursive: bool = False,
    ) -> None:
        super().__init__(scope, id_)
        self._namespace = options.names.namespace
        log = logs.LogGroup(self, "Log", removal_policy=RemovalPolicy.DESTROY)
        # The L2 construct does not take a number of days.
        cast("logs.CfnLogGroup", log.node.default_child).retention_in_days = options.retain_days
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log.grant_write(self.role)
        with staged_function(folder, files or {}) as (staged, digest):
            self.function = lambda_.Function(
                self,
                "Function",
                runtime=lambda_.Runtime.PYTHON_3_13,
                architecture=architecture(options),
                code=lambda_.Code.from_asset(str(staged), asset_hash=digest),
                handler="handler.handler",
                role=self.role,
                log_group=log,
                layers=list(layers),
                timeout=timeout,
                memory_size=memory,
                recursive_loop=lambda_.RecursiveLoop.ALLOW if recursive else None,
                environment=self._telemetry(folder.name)
                | (settings.variables() if settings else {}),
            )
        acknowledge(
            self.function,
            {"L1": f"The layer's packages are compiled for Python {PYTHON}: both move together."},
        )

    def allow(
        self,
        actions: Sequence[str],
        resources: Sequence[str],
        conditions: Mapping[str, Any] | None = None,
        *,
        wildcard: str = "",
    ) -> None:
        """Add a statement to the function's role; ``wildcard`` says why resources hold one."""
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=list(actions), resources=list(resources), conditions=conditions or None
            )
        )
        if wildcard:
            acknowledge_wildcards(self.role, resources, wildcard)

    def allow_metrics(self) -> None:
        """Let the function publish metrics, in our namespace only."""
        only = {"StringEquals": {"cloudwatch:namespace": self._namespace}}
        self.allow(
            ["cloudwatch:PutMetricData"],
            ["*"],
            only,
            wildcard="PutMetricData knows no resources; a condition limits it to our namespace.",
        )

    def _telemetry(self, service: str) -> dict[str, str]:
        return {
            "POWERTOOLS_SERVICE_NAME": service,
            "POWERTOOLS_METRICS_NAMESPACE": self._namespace,
            "POWERTOOLS_LOG_LEVEL": "INFO",
        }


def architecture(options: DeploymentOptions) -> lambda_.Architecture:
    """Return the processor that functions run on and that the layer is built for."""
    return {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}[
        options.architecture
    ]
