"""Exceptions from cdk-nag's AwsSolutions pack, each with the sentence that justifies it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Record exceptions for a construct and its children.

    ``reasons`` has the finding, without the pack's name, and why it does not apply.
    """
    Validations.of(construct).acknowledge(
        *(Acknowledgment(id=f"AwsSolutions-{rule}", reason=why) for rule, why in reasons.items())
    )


def acknowledge_wildcards(construct: IConstruct, resources: Sequence[str], why: str) -> None:
    """Record why a policy of the construct needs resources with wildcards."""
    stack = Stack.of(construct)
    findings = [_arn_text(stack.resolve(resource)) for resource in resources]
    acknowledge(construct, {f"IAM5[Resource::{finding}]": why for finding in findings})


def _arn_text(arn: Any) -> str:
    """An ARN as findings write it, with names of the template in angle brackets."""
    match arn:
        case str():
            return re.sub(r"\$\{(.+?)\}", r"<\1>", arn)
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(map(_arn_text, parts))
    raise TypeError(f"not a part of an ARN: {arn!r}")
