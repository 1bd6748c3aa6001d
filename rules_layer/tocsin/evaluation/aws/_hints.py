"""Hints to the evaluate queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocsin.evaluation._messages import encode_hint
from tocsin.evaluation._patrol import HintsLost


class SqsHints:
    """Sends hints singly, with a delay, and for patrol by the batch."""

    def __init__(self, sqs: Any, queue_url: str) -> None:
        self._sqs = sqs
        self._queue_url = queue_url

    def send(self, run: str, why: str, delay: float = 0.0) -> None:
        self._sqs.send_message(
            QueueUrl=self._queue_url, MessageBody=encode_hint(run, why), DelaySeconds=int(delay)
        )

    def send_ticks(self, runs: Sequence[str], now: float) -> None:
        """Tell up to ten runs what time it is. Raises HintsLost."""
        entries = [
            {"Id": str(number), "MessageBody": encode_hint(run, "patrol", now)}
            for number, run in enumerate(runs)
        ]
        answer = self._sqs.send_message_batch(QueueUrl=self._queue_url, Entries=entries)
        if failed := answer.get("Failed"):
            first = failed[0]
            raise HintsLost(
                f"{len(failed)} of {len(runs)} hints not taken by {self._queue_url}, the first for "
                f"{runs[int(first['Id'])]}: {first.get('Code')} {first.get('Message', '')}".rstrip()
            )
