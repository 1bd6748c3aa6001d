"""Hints to the evaluate queue."""

from __future__ import annotations

import json
from typing import Any


class SqsHints:
    def __init__(self, sqs: Any, queue_url: str) -> None:
        self._sqs = sqs
        self._queue_url = queue_url

    def send(self, run: str, why: str, delay: float = 0.0) -> None:
        body = {"tocsin": "hint", "run": run, "tick": None, "why": why}
        self._sqs.send_message(
            QueueUrl=self._queue_url, MessageBody=json.dumps(body), DelaySeconds=int(delay)
        )
