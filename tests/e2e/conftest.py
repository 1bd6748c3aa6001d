from __future__ import annotations

from collections.abc import Iterator

import pytest

from local import LocalAws, local_aws
from local.trainings import ROLE

# The template's alerts go to these; what they would have got is in `aws.mailbox` and `aws.sms()`.
CONTEXT = {
    "emails": ["ops@example.com"],
    "phones": ["+15551230000"],
    "alarmEmails": ["alarms@example.com"],
    "watchFile": "tests/e2e/watch.json",  # all defaults, and a folder of custom rules
    "allowedRecipients": ["*@c-d.example.org"],
    "stopGuard": "50/10m",
    "relaunch": [ROLE],
}


@pytest.fixture(scope="session")
def aws() -> Iterator[LocalAws]:
    """The embedded AWS with the stack deployed."""
    with local_aws(CONTEXT) as running:
        yield running
