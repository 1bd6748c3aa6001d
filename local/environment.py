"""Environments of child processes, without the AWS account of the user."""

from __future__ import annotations

import os

from local.emulator import REGION


def inherited() -> dict[str, str]:
    """The environment of this process without credentials, profiles or endpoints of AWS."""
    return {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}


def embedded(endpoint: str, sagemaker_endpoint: str) -> dict[str, str]:
    """Variables that point any AWS SDK to the embedded AWS, with credentials of no account."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ENDPOINT_URL_SAGEMAKER": sagemaker_endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
