"""The services that ``relaunch`` is connected to: SageMaker, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import msgspec

from tocsin.actions.next_job import Relaunch
from tocsin.actions.starting_again import Jobs, start_again
from tocsin.aws.clients import Client, LazyClient
from tocsin.aws.sagemaker import SageMakerJobs
from tocsin.aws.settings import RelaunchSettings

WAITING = "waiting"

Answer = dict[str, str]
"""``outcome``, which is ``waiting`` while the old job has not ended, and ``detail``."""


def connect_relaunch(
    settings: RelaunchSettings, client: Client = LazyClient, now: Callable[[], float] = time.time
) -> Callable[[object, str], Answer]:
    """Return a function of a plan, as the state machine has it, and of the time (ISO 8601) at which
    its execution began.
    """
    jobs = SageMakerJobs(client("sagemaker"))
    reached = Jobs(jobs.to_stop, jobs.tags, jobs.create)

    def relaunch(given: object, began: str) -> Answer:
        plan = msgspec.convert(given, Relaunch)
        waited = now() - datetime.fromisoformat(began).timestamp()
        result = start_again(plan, reached, settings.deployment, settings.roles, waited)
        if result is None:
            return {"outcome": WAITING, "detail": ""}
        return {"outcome": result.outcome.value, "detail": result.detail}

    return relaunch
