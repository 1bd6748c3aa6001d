"""Lambda ``replay``: evaluates one run of a replay again. A state machine calls it for each run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import tocsin.starting
from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.aws.connect.replay import connect_replay
from tocsin.aws.installed_rules import load_installed_rules
from tocsin.aws.settings import ReplaySettings
from tocsin.observability import logger
from tocsin.watch import read_watch

load_installed_rules()
replay = connect_replay(ReplaySettings.read(), read_watch(Path(__file__).with_name("watch.json")))
tocsin.starting.started()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> bool:
    """Return whether the run has been evaluated to its end. If not, the next call goes on."""
    ends = time.time() + context.get_remaining_time_in_millis() / 1000
    done = replay(event["replay"], event["run"], ends)
    logger.info("replayed", extra={"replay": event["replay"], "run": event["run"], "done": done})
    return done
