"""Templates to look at: each is synthesised once, without bundling, with cdk-nag."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks
from tocsin_cdk.options import read_options
from tocsin_cdk.stack import TocsinStack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EMAIL, PHONE = "ops@example.com", "+15551230000"
KEY_ARN = "arn:aws:kms:eu-west-1:111122223333:key/0f7c-11"


@dataclass(frozen=True)
class Synthesised:
    """A template, the folder of its assets, and ways to find things in it."""

    template: Mapping[str, Any]
    folder: Path

    def all(self, kind: str) -> dict[str, Any]:
        """Logical id and properties of the resources of a type, ``AWS::`` left out."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.template["Resources"].items()
            if resource["Type"] in (f"AWS::{kind}", kind)
        }

    def one(self, kind: str, fragment: str) -> dict[str, Any]:
        """The properties of the only resource of a type whose logical id holds the fragment."""
        found = [value for name, value in self.all(kind).items() if fragment in name]
        assert len(found) == 1, (kind, fragment, sorted(self.all(kind)))
        properties: dict[str, Any] = found[0]
        return properties

    def statements(self, fragment: str) -> list[dict[str, Any]]:
        """What the policy whose logical id holds the fragment allows."""
        policies = {**self.all("IAM::Policy"), **self.all("IAM::ManagedPolicy")}
        (policy,) = [value for name, value in policies.items() if fragment in name]
        statements: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
        return statements

    def resources(self, fragment: str, action: str) -> set[str]:
        """What that policy allows an action on, as JSON text."""
        return {
            json.dumps(resource)
            for statement in self.statements(fragment)
            if action in listed(statement["Action"])
            for resource in listed(statement.get("Resource", []))
        }

    def variables(self, fragment: str) -> dict[str, Any]:
        """The environment of the function whose logical id holds the fragment."""
        function = self.one("Lambda::Function", fragment)
        variables: dict[str, Any] = function["Environment"]["Variables"]
        return variables


def listed(value: Any) -> list[Any]:
    """A policy has one as itself and several as a list."""
    return value if isinstance(value, list) else [value]


def synthesise(folder: Path, context: Mapping[str, Any]) -> Synthesised:
    """The stack for a context. A finding of cdk-nag that nobody acknowledged is an error."""
    app = App(
        outdir=str(folder),
        context={
            "aws:cdk:bundling-stacks": [],
            "@aws-cdk/aws-iam:minimizePolicies": True,
            **context,
        },
    )
    stack = TocsinStack(app, options=read_options(context))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return Synthesised(app.synth().get_stack_by_name(stack.stack_name).template, folder)


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """The stack with a bucket of its own and recipients."""
    context = {
        "emails": EMAIL,
        "phones": [PHONE],
        "alarmEmails": "cloudwatch@example.com",
        "allowedRecipients": "*@example.com",
        "webhooks": "oncall-slack,pager",
        "smsMonthlyCap": "0",
        "stopGuard": "3/1h",
        "retainDays": "30",
        "jobMetrics": "false",
    }
    return synthesise(tmp_path_factory.mktemp("own"), context)


@pytest.fixture(scope="session")
def existing(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """The stack over a bucket that was there before, on the other architecture."""
    folder = tmp_path_factory.mktemp("existing")
    watch_file = folder / "watch.json"
    watch_file.write_text('{"rules": ["VanishingGradient"], "severity": "critical"}')
    context = {
        "captureBucket": "our-runs",
        "capturePrefix": "/jobs",
        "captureKeyArn": KEY_ARN,
        "architecture": "x86_64",
        "watchFile": str(watch_file),
    }
    return synthesise(folder / "out", context)
