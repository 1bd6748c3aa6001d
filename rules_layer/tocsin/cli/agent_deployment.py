"""The runs that a deployment knows, for an agent, and the silences that it may add."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tocsin.cli.agent_places import Silencer
from tocsin.cli.errors import CommandError
from tocsin.cli.output import Document
from tocsin.cli.run_status import run_document
from tocsin.cli.silences import (
    author_here,
    end_of_silence,
    silence_document,
    silence_from_options,
    store,
)
from tocsin.cli.stack import BUCKET, Deployment
from tocsin.cli.status import runs_document
from tocsin.trial import Trial, create_trial


@dataclass(frozen=True)
class Deployed:
    """The runs that a deployment knows, by URL or by the name of a job."""

    deployment: Deployment

    def runs(self) -> Document:
        return runs_document(self.deployment.find(BUCKET))

    def verdict(self, run: str) -> Document:
        return run_document(run, self.deployment)[0]

    def trial(self, run: str) -> Trial:
        return create_trial(self._find(run))

    def report(self, run: str) -> Document:
        return {"link": self.verdict(run)["report"], "command": None}

    def _find(self, run: str) -> str:
        known = [each["run"] for each in self.runs()["runs"] if run in (each["run"], each["job"])]
        if len(known) != 1:
            raise CommandError(f"{len(known)} runs are named {run!r}: list_runs has the URLs")
        return str(known[0])


def silencing(deployment: Deployment) -> Silencer:
    """Return a function that adds a silence to a deployment."""

    def add(job: str, rule: str, duration: str, why: str) -> Document:
        now = datetime.now(UTC)
        unsigned = silence_from_options(
            job=job,
            rule=rule,
            severity=None,
            everything=False,
            until=end_of_silence(duration, None, now),
            reason=why,
        )
        signed = replace(unsigned, author=f"{author_here()}, by an agent")
        return silence_document(store(deployment).add(signed), now)

    return add
