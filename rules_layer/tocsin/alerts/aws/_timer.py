"""Messages to act's own queue, for later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.alerts._messages import encode_flush, encode_retry
from tocsin.evaluation.aws import send_batch

_LONGEST = 900  # seconds that SQS delays a message


@dataclass(frozen=True)
class SqsTimer:
    sqs: Any
    queue_url: str

    def flush(self, run: str, delay: float) -> None:
        self._send(encode_flush(run), delay)

    def retry(self, run: str, task: str, delay: float) -> None:
        self._send(encode_retry(run, task), delay)

    def flush_all(self, runs: Sequence[str], now: float) -> None:
        """Have a look at up to ten runs' groups at once. Raises HintsLost."""
        send_batch(self.sqs, self.queue_url, {run: encode_flush(run) for run in runs})

    def _send(self, body: str, delay: float) -> None:
        # Rounded up: who looks too early finds nothing due.
        seconds = min(max(math.ceil(delay), 0), _LONGEST)
        self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=body, DelaySeconds=seconds)
