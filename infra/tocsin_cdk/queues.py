"""A work queue with its dead-letter queue."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tocsin_cdk.constants import TRIES, VISIBILITY_FACTOR


class WorkQueue(Construct):
    """A standard queue and its dead-letter queue: TLS only, encrypted with SQS-managed keys.

    ``timeout`` is that of the function that reads it. Dead letters are kept for 14 days.
    """

    def __init__(self, scope: Construct, id_: str, *, timeout: Duration) -> None:
        super().__init__(scope, id_)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(VISIBILITY_FACTOR * timeout.to_seconds()),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=TRIES),
        )
