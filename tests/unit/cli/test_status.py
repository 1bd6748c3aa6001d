"""``tocsin status``."""

from __future__ import annotations

from dataclasses import replace

import boto3
import pytest
from botocore.stub import Stubber
from tocsin.cli import _status
from tocsin.cli._verdicts import STYLES, worst
from tocsin.evaluation import Checkpoint, check
from tocsin.evaluation.aws import S3Checkpoints, checkpoint_key
from tocsin.model import RuleStatus
from tocsin.tensors import LocalStorage

RUN = "s3://capture/jobs/j1/debug-output"


@pytest.fixture
def known(aws, ill):
    """The state bucket of a stack that has seen two runs; one of them has no step yet."""
    store = S3Checkpoints(aws, "state")
    checkpoint, _ = check(LocalStorage(ill))
    store.save(replace(checkpoint, run=RUN), None)
    store.save(Checkpoint("s3://capture/jobs/j2"), None)
    return aws


def test_all_runs(tocsin, known):
    said = tocsin("status", "--state-bucket", "state", "--json")
    assert (said.code, said.err) == (0, "")
    runs = {run["job"]: run for run in said.json["runs"]}
    assert list(runs["j1"]) == [
        "job",
        "run",
        "finished",
        "last_step",
        "RuleEvaluationStatus",
        "LastModifiedTime",
    ]
    assert {**runs["j1"], "LastModifiedTime": ""} == {
        "job": "j1",
        "run": RUN,
        "finished": True,
        "last_step": 50,
        "RuleEvaluationStatus": "IssuesFound",
        "LastModifiedTime": "",
    }
    assert (runs["j2"]["finished"], runs["j2"]["last_step"]) == (False, None)
    assert runs["j2"]["RuleEvaluationStatus"] is None
    people = tocsin("status", "--state-bucket", "state").out
    row = next(line.split() for line in people.splitlines() if line.startswith("IssuesFound"))
    assert row[:4] == ["IssuesFound", "j1", "50", "finished"]
    assert RUN in people


def test_the_newest_first_and_damage_left_out(tocsin, known):
    times = {}
    for number in range(3, 23):
        key = checkpoint_key(f"s3://capture/jobs/j{number}")
        known.put_object(
            Bucket="state", Key=key, Body=b"rubbish" if number == 12 else _encoded(number)
        )
        times[number] = key
    said = tocsin("status", "--state-bucket", "state", "--json")
    assert len(said.json["runs"]) == 21
    stamps = [run["LastModifiedTime"] for run in said.json["runs"]]
    assert stamps == sorted(stamps, reverse=True)
    (line,) = said.err.splitlines()
    assert line.startswith(f"tocsin: {times[12]}: not a checkpoint")


def _encoded(number):
    from tocsin.evaluation import encode_checkpoint

    return encode_checkpoint(Checkpoint(f"s3://capture/jobs/j{number}"))


def test_one_run(tocsin, known, ill):
    checked = tocsin("check", ill, "--json").json
    for url in (RUN, f"{RUN}/"):
        said = tocsin("status", url, "--state-bucket", "state", "--json")
        assert (said.code, said.json) == (1, {**checked, "run": RUN})
    assert tocsin("status", RUN, "--state-bucket", "state").out.startswith(f"run      {RUN}")
    assert tocsin("status", "s3://capture/jobs/j2", "--state-bucket", "state").code == 0


def test_the_bucket_of_the_environment(tocsin, known, monkeypatch):
    monkeypatch.setenv("TOCSIN_STATE_BUCKET", "state")
    assert tocsin("status", RUN).code == 1
    monkeypatch.setenv("TOCSIN_STATE_BUCKET", "another")
    assert tocsin("status", RUN, "--state-bucket", "state").code == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["s3://capture/jobs/j9"], "nothing is known of s3://capture/jobs/j9: `tocsin status`"),
        (["jobs/j1"], "jobs/j1: the stack knows runs as s3://bucket/prefix"),
        (["--state-bucket", "nobody-s"], "AWS: "),
        ([RUN, "--state-bucket", "nobody-s"], "AWS: "),
    ],
)
def test_what_is_refused(tocsin, known, arguments, complaint):
    bucket = () if "--state-bucket" in arguments else ("--state-bucket", "state")
    assert tocsin("status", *arguments, *bucket).complaint.startswith(complaint)


def test_nothing_yet(tocsin, aws):
    assert tocsin("status", "--state-bucket", "state").out == "no run has been evaluated yet\n"
    assert tocsin("status", "--state-bucket", "state", "--json").json == {"runs": []}


@pytest.fixture
def stacks(aws, monkeypatch):
    """CloudFormation with prepared answers."""
    client = boto3.client("cloudformation")
    monkeypatch.setattr(
        _status, "aws", lambda service: client if service == "cloudformation" else aws
    )
    with Stubber(client) as stubber:
        yield stubber


def _stack(name, **outputs):
    return {
        "Stacks": [
            {
                "StackName": name,
                "CreationTime": 0,
                "StackStatus": "CREATE_COMPLETE",
                "Outputs": [{"OutputKey": k, "OutputValue": v} for k, v in outputs.items()],
            }
        ]
    }


@pytest.mark.parametrize(("option", "name"), [((), "Tocsin"), (("--stack", "Mine"), "Mine")])
def test_the_bucket_of_a_stack(tocsin, known, stacks, monkeypatch, option, name):
    if option:  # what is named goes before the environment
        monkeypatch.setenv("TOCSIN_STATE_BUCKET", "another")
    answer = _stack(name, DashboardName="d", StateBucketName="state")
    stacks.add_response("describe_stacks", answer, {"StackName": name})
    assert tocsin("status", RUN, *option).code == 1
    stacks.assert_no_pending_responses()


def test_stacks_that_do_not_help(tocsin, stacks):
    stacks.add_response("describe_stacks", _stack("Tocsin", Other="x"))
    assert "stack Tocsin has no output StateBucketName" in tocsin("status").complaint
    stacks.add_client_error("describe_stacks", "ValidationError", "does not exist")
    assert (
        "there is no stack Mine: name the bucket" in tocsin("status", "--stack", "Mine").complaint
    )
    stacks.add_client_error("describe_stacks", "AccessDenied", "no")
    assert tocsin("status").complaint.startswith("AWS: An error occurred (AccessDenied)")


def test_the_worst_status():
    assert set(STYLES) == set(RuleStatus)
    assert worst([]) is None
    assert worst([RuleStatus.NO_ISSUES_FOUND, RuleStatus.NOT_APPLICABLE]) == "NoIssuesFound"
    assert worst([RuleStatus.ERROR, RuleStatus.ISSUES_FOUND, RuleStatus.STOPPED]) == "IssuesFound"
