"""Switches a bucket's EventBridge events on during a deployment."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import boto3


def handler(event: dict[str, Any], context: Any) -> None:
    """Answers CloudFormation in any case: without an answer it would wait for an hour."""
    properties = event["ResourceProperties"]
    bucket = properties["Bucket"]
    try:
        # On deletion the bucket stays as it is: others may rely on its events by now.
        if event["RequestType"] != "Delete":
            switch_on(boto3.client("s3"), bucket, properties["Account"])
        status, reason = "SUCCESS", "EventBridge events are on"
    except Exception as error:  # noqa: BLE001
        status, reason = (
            "FAILED",
            f"cannot switch EventBridge events of bucket {bucket} on: {error}",
        )
    _answer(event, bucket, status, reason)


def switch_on(s3: Any, bucket: str, account: str) -> None:
    """Adds EventBridge to the bucket's notifications, if it is not there yet.

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
