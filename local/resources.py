"""Uses the embedded AWS that `tocsin local up` has started: its mailbox and its SageMaker."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from local.background import resources
from local.error import LocalError
from local.jobs import FOLDER
from local.mailbox import Mailbox
from local.stack import make_client
from local.trainings import training_job


def mails() -> list[dict[str, str]]:
    """Removes and returns the e-mails that subscribers would have got since the last time."""
    up = resources()
    mailbox = Mailbox.at(make_client(up["environment"], "sqs"), up["mailbox_queue_url"])
    return [
        {"subject": message.subject, "body": message.body}
        for message in mailbox.receive()
        if message.by_email
    ]


def submit(script: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Start a training job that runs the script in this folder. Returns its name and its run."""
    path = Path(script).absolute()
    if not path.is_file():
        raise LocalError(f"{script}: no such file")
    up = resources()
    name = f"{path.stem.replace('_', '-')}-{datetime.now(UTC):%H%M%S}"
    output = f"s3://{up['bucket']}/jobs"
    request = training_job(name, [sys.executable, str(path), *arguments], output)
    run = f"{output}/{name}/debug-output"
    make_client(up["environment"], "sagemaker").create_training_job(
        **request,
        Environment={"TOCSIN_RUN": run, FOLDER: str(Path.cwd())},
        Tags=[{"Key": "tocsin:run", "Value": run}],
    )
    return {"job": name, "run": run}
