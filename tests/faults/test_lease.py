"""The lease on a run, when botocore sends a request again whose answer was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.faults.room import START, Deployment, Room


class Resending:
    """A client of DynamoDB that loses the first answer to each update, and sends it again."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def update_item(self, **request: Any) -> Any:
        try:
            self._client.update_item(**request)
        finally:
            return self._client.update_item(**request)  # noqa: B012  # whatever the first came to


@pytest.mark.usefixtures("aws")
def test_a_lease_whose_answer_was_lost_is_taken(tmp_path: Path) -> None:
    Deployment(watched=False)
    room = Room(tmp_path, {"rules": ["VanishingGradient"]}, now=START + 10)
    room.with_dynamodb(Resending(boto3.client("dynamodb")))
    job = room.job()
    job.steps(3)
    room.look(job)
    assert room.known(job).steps == 3
