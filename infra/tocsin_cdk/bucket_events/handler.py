"""Switches a bucket's EventBridge events on during a deployment."""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

import boto3
from botocore.exceptions import ClientError


def handler(event: dict[str, Any], context: Any) -> None:
    """Answer CloudFormation in any case: without an answer it would wait for an hour."""
    properties = event["ResourceProperties"]
    bucket = properties["Bucket"]
    try:
        # On deletion the bucket stays as it is: others may rely on its events by now.
        if event["RequestType"] != "Delete":
            s3 = boto3.client("s3")
            check_place(s3, bucket, properties["Account"], os.environ["AWS_REGION"])
            switch_on(s3, bucket, properties["Account"])
        status, reason = "SUCCESS", "EventBridge events are on"
    except Exception as error:  # noqa: BLE001
        status, reason = (
            "FAILED",
            f"cannot switch EventBridge events of bucket {bucket} on: {error}",
        )
    _answer(event, bucket, status, reason)


def check_place(s3: Any, bucket: str, account: str, region: str) -> None:
    """Raises ValueError if the bucket is in another account or region: it would never notify."""
    try:
        answer = s3.get_bucket_location(Bucket=bucket, ExpectedBucketOwner=account)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in ("AccessDenied", "NoSuchBucket"):
            raise
        raise ValueError(
            f"captureBucket {bucket} is not a bucket of account {account}, or its policy denies "
            f"access to this deployment ({code}): name a bucket of this account"
        ) from error
    # Its name for the oldest region is none, and for the second oldest another.
    found = {None: "us-east-1", "EU": "eu-west-1"}.get(
        answer["LocationConstraint"], answer["LocationConstraint"]
    )
    if found != region:
        raise ValueError(
            f"captureBucket {bucket} is in {found}, this deployment in {region}: "
            f"deploy to {found}, or name a bucket of {region}"
        )


def switch_on(s3: Any, bucket: str, account: str) -> None:
    """Add EventBridge to the bucket's notifications, if it is not there yet.

    The API replaces the whole configuration, so the existing one is sent back with it. Destinations
    are not validated: a broken one of somebody else must not fail the deployment.
    """
    owned = {"Bucket": bucket, "ExpectedBucketOwner": account}
    current = s3.get_bucket_notification_configuration(**owned)
    current.pop("ResponseMetadata", None)
    if "EventBridgeConfiguration" in current:
        return
    s3.put_bucket_notification_configuration(
        **owned,
        NotificationConfiguration={**current, "EventBridgeConfiguration": {}},
        SkipDestinationValidation=True,
    )


def _answer(event: dict[str, Any], bucket: str, status: str, reason: str) -> None:
    body = {
        "Status": status,
        "Reason": reason[:1000],
        "PhysicalResourceId": f"{bucket}/events",
        **{key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")},
    }
    request = urllib.request.Request(  # noqa: S310
        event["ResponseURL"],
        data=json.dumps(body).encode(),
        headers={"Content-Type": ""},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310
