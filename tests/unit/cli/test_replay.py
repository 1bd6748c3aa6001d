"""``tocsin replay RUN``, over the services of a stack in process."""

from __future__ import annotations

import json

import boto3
import pytest
from msgspec.structs import replace
from tocsin.aws.s3 import S3Checkpoints
from tocsin.cli.replay import NOTE
from tocsin.evaluation import check, parse_message
from tocsin.evaluation.messages import Hint
from tocsin.tensors import LocalStorage

RUN = "s3://capture/jobs/j1/debug-output"


@pytest.fixture
def store(aws, upload, ill, monkeypatch):
    """A stack that has evaluated a run in S3."""
    upload(ill, "jobs/j1/debug-output")
    checkpoints = S3Checkpoints(aws, "state")
    checkpoint, _ = check(LocalStorage(ill))
    checkpoints.save(replace(checkpoint, run=RUN, sequence=10**12), None)
    monkeypatch.setenv("TOCSIN_STATE_BUCKET", "state")
    return checkpoints


def test_the_same_rules_find_the_same_and_nothing_is_stored(tocsin, store):
    before = store.load(RUN)
    said = tocsin("replay", RUN, "--json")
    assert said.code == 1
    assert said.json["changed"] == []
    assert said.json["before"]["VanishingGradient"] == "IssuesFound"
    assert store.load(RUN) == before
    assert "every rule has the same status as before" in tocsin("replay", "j1").out


def test_another_watch_file_shows_what_it_changes(tocsin, store, tmp_path):
    watch = tmp_path / "new.json"
    rule = {"rule": "VanishingGradient", "parameters": {"threshold": 1e-12}}
    watch.write_text(json.dumps({"rules": [rule]}))
    said = tocsin("replay", RUN, "--watch", watch, "--json")
    assert said.code == 0
    assert said.json["before"]["VanishingGradient"] == "IssuesFound"
    assert "VanishingGradient" in said.json["changed"]
    people = tocsin("replay", RUN, "--watch", watch).out
    assert "VanishingGradient  IssuesFound → NoIssuesFound" in people


def test_acting_hands_the_run_to_the_deployment(tocsin, store, monkeypatch):
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName="evaluate")["QueueUrl"]
    monkeypatch.setenv("TOCSIN_EVALUATE_QUEUE_URL", queue)
    assert tocsin("replay", RUN, "--act", "--json").json == {"run": RUN, "acts": True}
    checkpoint = store.load(RUN).checkpoint
    assert {record.fingerprint for record in checkpoint.rules.values()} == {""}  # begin again
    assert (checkpoint.generation, checkpoint.steps, checkpoint.ended) == (1, 0, None)
    assert (checkpoint.sequence, checkpoint.note) == (10**12, NOTE)
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert parse_message(message["Body"]) == [Hint(RUN)]


def test_what_cannot_be_replayed(tocsin, store, monkeypatch):
    monkeypatch.setenv("TOCSIN_EVALUATE_QUEUE_URL", "https://sqs/evaluate")
    unknown = tocsin("replay", "s3://capture/jobs/j9", "--act").complaint
    assert unknown.startswith("the stack does not know s3://capture/jobs/j9")
    assert "remove --watch" in tocsin("replay", RUN, "--act", "--watch", "w.yaml").complaint
    assert "knows no run of a job j9" in tocsin("replay", "j9").complaint


def test_what_cannot_be_replayed_together(tocsin, aws, monkeypatch, tmp_path):
    for variable, value in (
        ("TOCSIN_STATE_BUCKET", "state"),
        ("TOCSIN_CAPTURE_BUCKET", "capture"),
        ("TOCSIN_REPLAY_STATE_MACHINE", "arn:aws:states:us-east-1:1:stateMachine:m"),
    ):
        monkeypatch.setenv(variable, value)
    assert "remove --act" in tocsin("replay", "s3://capture/", "--all", "--act").complaint
    assert "go with --all" in tocsin("replay", RUN, "-o", "table").complaint
    elsewhere = tocsin("replay", "s3://other/jobs/", "--all").complaint
    assert elsewhere == ("s3://other/jobs/ is not in the deployment's bucket: name s3://capture/…")
    assert tocsin("replay", "s3://capture/jobs/", "--all").complaint == (
        "there is no run at s3://capture/jobs/ or below it"
    )
    unknown = tocsin("replay", "s3://capture/", "--all", "--collect", "nothing").complaint
    assert unknown == "there is no replay nothing in this deployment"
