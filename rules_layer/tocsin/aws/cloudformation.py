"""Outputs and version of a deployed stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from tocsin.aws.clients import error_code


def stack_outputs(client: Any, stack: str) -> Mapping[str, str] | None:
    """Return the outputs of the stack by name; None where there is no such stack."""
    try:
        answer = client.describe_stacks(StackName=stack)
    except ClientError as error:
        if error_code(error) != "ValidationError":
            raise
        return None
    outputs = answer["Stacks"][0].get("Outputs", ())
    return {output["OutputKey"]: output["OutputValue"] for output in outputs}
