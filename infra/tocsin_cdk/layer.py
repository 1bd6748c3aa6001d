"""The layer that all functions share: tocsin, the packages it needs, and custom rules."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from tocsin_cdk.bundle import lambda_target, local_target, staged_layer
from tocsin_cdk.constants import CUSTOM_RULES, TOCSIN
from tocsin_cdk.function import architecture
from tocsin_cdk.options import DeploymentOptions
from tocsin_cdk.watch_file import custom_rules

_SOURCE = TOCSIN


class SharedLayer(Construct):
    """A layer version for the deployment's architecture, or for a local interpreter.

    If the CDK asks for no bundling, the layer holds our sources only and pip does not run.
    """

    def __init__(self, scope: Construct, id_: str, *, options: DeploymentOptions) -> None:
        super().__init__(scope, id_)
        self._options = options
        if not Stack.of(self).bundling_required:
            self.version = self._layer_version(
                lambda_.Code.from_asset(str(_SOURCE), exclude=["__pycache__"])
            )
            return
        python = options.local_python
        target = local_target(python) if python else lambda_target(options.architecture)
        folders = {"tocsin": _SOURCE}
        if (rules := custom_rules(options.watch_file)) is not None:
            folders[CUSTOM_RULES] = rules
        with staged_layer(target, folders) as (folder, digest):
            self.version = self._layer_version(
                lambda_.Code.from_asset(str(folder), asset_hash=digest)
            )

    def _layer_version(self, code: lambda_.Code) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            "Version",
            code=code,
            description="tocsin and the packages it needs",
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[architecture(self._options)],
        )
