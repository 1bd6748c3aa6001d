"""The embedded AWS: the deployed stack on a laptop or in CI, without an account or Docker."""

from __future__ import annotations

from local.background import down, up
from local.error import LocalError
from local.job import LocalJob
from local.mailbox import Mailbox, MailboxMessage, Sms
from local.stack import LocalAws, local_aws

__all__ = [
    "LocalAws",
    "LocalError",
    "LocalJob",
    "Mailbox",
    "MailboxMessage",
    "Sms",
    "down",
    "local_aws",
    "up",
]
