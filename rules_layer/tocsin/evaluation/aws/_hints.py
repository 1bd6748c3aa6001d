"""Hints to the evaluate queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        hints = {run: encode_hint(run, "patrol", now) for run in runs}
        send_batch(self._sqs, self._queue_url, hints)


def send_batch(sqs: Any, queue_url: str, bodies: Mapping[str, str]) -> None:
    """Up to ten messages, by the run that each is for. Raises HintsLost."""
    runs = list(bodies)
    entries = [{"Id": str(at), "MessageBody": bodies[run]} for at, run in enumerate(runs)]
    answer = sqs.send_message_batch(QueueUrl=queue_url, Entries=entries)
    if failed := answer.get("Failed"):
        first = failed[0]
        raise HintsLost(
            f"{len(failed)} of {len(runs)} messages not taken by {queue_url}, the first for "
            f"{runs[int(first['Id'])]}: {first.get('Code')} {first.get('Message', '')}".rstrip()
        )
