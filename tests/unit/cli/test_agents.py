"""Answers to an agent about a deployment, and the silences that it may add."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tocsin.aws.s3 import S3Checkpoints
from tocsin.cli.agent_answers import runs_answer, verdict_answer
from tocsin.cli.agent_deployment import Deployed, silencing
from tocsin.cli.errors import CommandError
from tocsin.cli.silences import store
from tocsin.cli.stack import BUCKET, Deployment
from tocsin.evaluation import check
from tocsin.tensors import LocalStorage

RUN = "s3://capture/jobs/j1/debug-output"


@pytest.fixture
def deployment(aws, ill, stack):
    checkpoint, _ = check(LocalStorage(ill))
    S3Checkpoints(aws, "state").save(replace(checkpoint, run=RUN), None)
    return Deployment(None, {BUCKET: "state"}, None)


def test_runs_and_verdicts_of_a_deployment(deployment):
    place = Deployed(deployment)
    assert [run["run"] for run in runs_answer(place)["runs"]] == [RUN]
    said = verdict_answer(place, "j1")
    assert said["run"] == RUN
    assert said["findings"][0]["what_to_do"].endswith(".")
    assert place.report("j1")["link"].startswith("https://")


@pytest.mark.parametrize("name", ["j9", "s3://capture/jobs/secret", "/etc"])
def test_only_runs_that_the_stack_knows_are_opened(deployment, name):
    with pytest.raises(CommandError, match="list_runs has the URLs"):
        Deployed(deployment).trial(name)


def test_a_silence_says_that_an_agent_added_it(deployment):
    added = silencing(deployment)("nightly-*", "*", "2h", "new disk")
    (silence,) = store(deployment).active(0)
    assert (silence.id, silence.job, silence.reason) == (added["id"], "nightly-*", "new disk")
    assert silence.author.endswith(", by an agent")


@pytest.mark.parametrize(
    ("job", "duration", "why"), [("*", "2h", "all"), ("j", "31d", "long"), ("j", "2h", "")]
)
def test_what_cannot_be_silenced(deployment, job, duration, why):
    with pytest.raises(CommandError):
        silencing(deployment)(job, "*", duration, why)
    assert not list(store(deployment).active(0))


def test_the_command_says_what_it_needs(tocsin, tmp_path):
    assert tocsin("mcp", tmp_path / "none").complaint == f"{tmp_path / 'none'}: no such folder"
    both = tocsin("mcp", tmp_path, "--allow-silence").complaint
    assert both == "--allow-silence is for the deployment: leave out FOLDER"
    assert tocsin("mcp", tmp_path).complaint.startswith("this needs the package mcp: pip install")
