"""Two stages side by side: what is trained under the one, the other knows nothing of."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from local import LocalAws
from local.deploy import deploy
from local.environment import inherited
from local.interpreter import interpreter
from local.reaper import Reaper
from local.stage_trial import STAGE, train_here, train_there, try_stage, watch_file
from local.synth import synthesize
from local.trial_job import EXAMPLE, Container
from local.tune import local_options, tune

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def stage(aws: LocalAws) -> Mapping[str, str]:
    """The outputs of a second stage."""
    context = {"stage": STAGE, **local_options(interpreter())}
    with Reaper() as reaper:
        outputs = deploy(synthesize(reaper, reaper.folder("stage"), context), aws.client)
    tune(aws.client("lambda"))
    return outputs


def checkpoints(aws: LocalAws, outputs: Mapping[str, str], run: str) -> int:
    """How many checkpoints a stage has of the run."""
    prefix = f"checkpoints/{run.rpartition('/')[2]}/"
    s3, bucket = aws.client("s3"), outputs["StateBucketName"]
    return int(s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["KeyCount"])


def test_a_second_stage_stops_a_training_and_the_first_hears_nothing(
    aws: LocalAws, stage: Mapping[str, str]
) -> None:
    assert not {*stage.values()} & {*aws.outputs.values()} - {stage["TocsinVersion"]}
    python_path = os.pathsep.join(str(ROOT / room) for room in ("rules_layer", "hooks"))
    environment = {**inherited(), **aws.environment, "PYTHONPATH": python_path}

    run = try_stage(aws.client, stage, STAGE, partial(train_here, aws.client, stage, environment))

    assert (checkpoints(aws, stage, run), checkpoints(aws, aws.outputs, run)) == (1, 0)


def test_it_stops_a_training_job(aws: LocalAws, stage: Mapping[str, str]) -> None:
    with watch_file() as watch:
        container = Container("local", (sys.executable, str(EXAMPLE)), str(watch))

        def train(job: str) -> None:
            assert train_there(aws.client, stage, container, job)

        run = try_stage(aws.client, stage, STAGE, train)

    assert (checkpoints(aws, stage, run), checkpoints(aws, aws.outputs, run)) == (1, 0)
    roles = aws.client("iam").list_roles()["Roles"]
    assert run.rpartition("/")[2] not in {role["RoleName"] for role in roles}
