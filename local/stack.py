"""The embedded AWS as a whole: emulator, SageMaker, the deployed stack and a mailbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import boto3
from botocore.config import Config
from botocore.session import Session
from tocsin.retries import RETRIES

from local.deploy import deploy
from local.emulator import Emulator, emulator
from local.environment import embedded, inherited
from local.interpreter import interpreter
from local.job import LocalJob, state_change
from local.jobs import GRACE, LocalJobs
from local.mailbox import Mailbox, Sms, read_sms
from local.port import loopback_port, url
from local.reaper import Reaper
from local.sagemaker import serve
from local.template import template
from local.tune import local_options, tune


@dataclass(frozen=True)
class LocalAws:
    """A running embedded AWS.

    environment: points child processes to it.
    outputs: of the stack.
    jobs: the training jobs.
    """

    emulator: Emulator
    sagemaker_endpoint: str
    environment: Mapping[str, str]
    outputs: Mapping[str, str]
    jobs: LocalJobs = field(repr=False)
    mailbox: Mailbox = field(repr=False)

    def client(self, service: str) -> Any:
        """A boto3 client for the embedded AWS."""
        return make_client(self.environment, service)

    def sms(self) -> list[Sms]:
        """The text messages that would have been sent."""
        return read_sms(self.emulator.endpoint)

    def describe(self) -> dict[str, Any]:
        """The document of `tocsin local up --json`."""
        outputs = self.outputs
        return {
            "endpoint": self.emulator.endpoint,
            "sagemaker_endpoint": self.sagemaker_endpoint,
            "bucket": outputs["CaptureBucketName"],
            "state_bucket": outputs["StateBucketName"],
            "table": outputs["StateTableName"],
            "evaluate_queue_url": outputs["EvaluateQueueUrl"],
            "evaluate_dlq_url": outputs["EvaluateDeadLetterQueueUrl"],
            "act_dlq_url": outputs["ActDeadLetterQueueUrl"],
            "bus": outputs["EventBusName"],
            "topic_arn": outputs["AlertTopicArn"],
            "mailbox_queue_url": self.mailbox.queue_url,
            "environment": dict(self.environment),
        }


@contextmanager
def local_aws(
    context: Mapping[str, Any] | None = None,
    *,
    grace: float = GRACE,
    say: Callable[[str], object] = lambda phase: None,
    patient: bool = True,
) -> Iterator[LocalAws]:
    """Start the embedded AWS and deploy the stack to it, synthesised with ``context``.

    ``grace`` is the time in seconds of a training job between SIGTERM and SIGKILL. ``say`` is
    called with each phase when it begins. ``patient``: see ``Reaper``. All of it ends with the
    block, or with this process.
    """
    python = interpreter()
    say("starting the embedded AWS, and writing the template with the layer for it")
    with ExitStack() as stack:
        thread = stack.enter_context(ThreadPoolExecutor(1))  # the reaper ends its task
        reaper = stack.enter_context(Reaper(patient=patient))
        options = {**(context or {}), **local_options(python)}
        assembly = thread.submit(template, reaper, options)
        port = stack.enter_context(loopback_port())
        sagemaker_port = stack.enter_context(loopback_port())
        environment = embedded(url(port), url(sagemaker_port))
        running = stack.enter_context(emulator(reaper, python, port, environment))
        jobs = stack.enter_context(
            LocalJobs(reaper, inherited() | environment, _publisher(environment), grace)
        )
        sagemaker_endpoint = url(sagemaker_port)
        stack.enter_context(serve(sagemaker_port, jobs))
        client = partial(make_client, environment)
        say("the embedded AWS answers; waiting for the template")
        written = assembly.result()
        say("deploying the stack")
        outputs = deploy(written, client)
        say("starting the functions")
        tune(client("lambda"))
        mailbox = Mailbox(client("sqs"), client("sns"), outputs["AlertTopicArn"])
        yield LocalAws(running, sagemaker_endpoint, environment, outputs, jobs, mailbox)


def _publisher(environment: Mapping[str, str]) -> Any:
    events = make_client(environment, "events")

    def publish(job: LocalJob) -> None:
        answer = events.put_events(Entries=[state_change(job)])
        if answer["FailedEntryCount"]:
            raise RuntimeError(f"PutEvents refused the event: {answer['Entries']}")

    return publish


def make_client(environment: Mapping[str, str], service: str) -> Any:
    """A client that reads no profile and no variable of this process: it cannot reach AWS."""
    nowhere = {
        "profile": (None, None, None, None),
        "config_file": (None, None, os.devnull, None),
        "credentials_file": (None, None, os.devnull, None),
    }
    name = "AWS_ENDPOINT_URL_SAGEMAKER" if service == "sagemaker" else "AWS_ENDPOINT_URL"
    return boto3.session.Session(botocore_session=Session(session_vars=nowhere)).client(
        service,
        endpoint_url=environment[name],
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries=RETRIES, read_timeout=300),
    )
