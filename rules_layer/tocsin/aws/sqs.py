"""Messages to the two work queues, at once or later, singly or by the batch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tocsin.aws.clients import AWS_ERRORS
from tocsin.own_messages import encode_deliver, encode_flush, encode_hint
from tocsin.patrol import HintsLost

if TYPE_CHECKING:
    from tocsin.evaluation import Failures

_LONGEST = 900  # seconds that SQS delays a message
_WAITS = (15, 45, 135, 405)  # seconds, after the first, second … try that failed


@dataclass(frozen=True)
class Queue:
    """A queue as its senders and the function that works it off see it."""

    client: Any
    url: str

    def send(self, body: str, delay: float = 0.0) -> None:
        # Rounded up: who looks too early finds nothing due.
        seconds = min(max(math.ceil(delay), 0), _LONGEST)
        self.client.send_message(QueueUrl=self.url, MessageBody=body, DelaySeconds=seconds)

    def send_batch(self, bodies: Mapping[str, str]) -> None:
        """Up to ten messages, by the run that each is for. Raises HintsLost."""
        runs = list(bodies)
        entries = [{"Id": str(at), "MessageBody": bodies[run]} for at, run in enumerate(runs)]
        answer = self.client.send_message_batch(QueueUrl=self.url, Entries=entries)
        if failed := answer.get("Failed"):
            first = failed[0]
            raise HintsLost(
                f"{self.url} refused {len(failed)} of {len(runs)} messages, the first for "
                f"{runs[int(first['Id'])]}: {first.get('Code')} {first.get('Message', '')}".rstrip()
            )

    def back_off(self, record: Mapping[str, Any]) -> None:
        """Keep a message that is about to fail away, longer after each try.

        ``record`` is the message as Lambda hands it out.
        """
        with suppress(*AWS_ERRORS):  # then it comes back at the queue's own time
            self.client.change_message_visibility(
                QueueUrl=self.url,
                ReceiptHandle=record["receiptHandle"],
                VisibilityTimeout=dict(enumerate(_WAITS, 1)).get(_receives(record), _LONGEST),
            )


def _receives(record: Mapping[str, Any]) -> int:
    return int(record["attributes"]["ApproximateReceiveCount"])


@dataclass(frozen=True)
class Received:
    """The messages of one invocation, as Lambda passes them."""

    queue: Queue
    records: Sequence[Mapping[str, Any]]

    @property
    def bodies(self) -> Mapping[str, str]:
        """By the messages' ids. Those that were tried before come last: they may fail again."""
        records = sorted(self.records, key=_receives)
        return {record["messageId"]: record["body"] for record in records}

    def hand_on(self, ids: Collection[str]) -> set[str]:
        """Send these messages again as new ones, never tried; return the ids not taken."""
        entries = [
            {"Id": str(at), "MessageBody": record["body"]}
            for at, record in enumerate(self.records)
            if record["messageId"] in ids
        ]
        try:
            answer = self.queue.client.send_message_batch(QueueUrl=self.queue.url, Entries=entries)
        except AWS_ERRORS:
            return set(ids)
        return {self.records[int(failed["Id"])]["messageId"] for failed in answer.get("Failed", ())}

    def answer(self, failures: Failures) -> dict[str, Any]:
        """Keep messages that failed away for a while, and name them to Lambda.

        Raises if every message failed, so that Lambda counts an error.
        """
        for record in self.records:
            if record["messageId"] in failures.ids:
                self.queue.back_off(record)
        if failures.errors and len(failures.ids) == len(self.records):
            raise failures.errors[0]
        return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in sorted(failures.ids)]}


@dataclass(frozen=True)
class SqsHints:
    """Hints to ``evaluate``."""

    queue: Queue

    def send(self, run: str, why: str, delay: float = 0.0) -> None:
        self.queue.send(encode_hint(run, why), delay)

    def send_ticks(self, runs: Sequence[str], now: float) -> None:
        """Send the time to up to ten runs. Raises HintsLost."""
        self.queue.send_batch({run: encode_hint(run, "patrol", now) for run in runs})


@dataclass(frozen=True)
class SqsTimer:
    """Messages to ``act``: to look again later, and to carry out what was handed on."""

    queue: Queue

    def flush(self, run: str, delay: float) -> None:
        self.queue.send(encode_flush(run), delay)

    def deliver(self, run: str, waits: int = 0, delay: float = 0.0) -> None:
        self.queue.send(encode_deliver(run, waits), delay)

    def flush_all(self, runs: Sequence[str], now: float) -> None:
        """Has up to ten runs' groups looked at. Raises HintsLost."""
        self.queue.send_batch({run: encode_flush(run) for run in runs})
