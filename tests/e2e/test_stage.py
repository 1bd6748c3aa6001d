"""Two stages side by side: what is trained under the one, the other knows nothing of."""

from __future__ import annotations

import os
from pathlib import Path

from local import LocalAws
from local.deploy import deploy
from local.environment import inherited
from local.interpreter import interpreter
from local.reaper import Reaper
from local.stage_trial import STAGE, try_stage
from local.synth import synthesize
from local.tune import tune

ROOT = Path(__file__).parents[2]


def test_a_second_stage_stops_a_training_and_the_first_hears_nothing(aws: LocalAws) -> None:
    context = {
        "stage": STAGE,
        "tocsin:layerRuntime": "local",
        "tocsin:localPython": str(interpreter()),
    }
    with Reaper() as reaper:
        outputs = deploy(synthesize(reaper, reaper.folder("stage"), context), aws.client)
    tune(aws.client("lambda"))
    assert not {*outputs.values()} & {*aws.outputs.values()} - {outputs["TocsinVersion"]}
    python_path = os.pathsep.join(str(ROOT / room) for room in ("rules_layer", "hooks"))
    environment = {**inherited(), **aws.environment, "PYTHONPATH": python_path}

    run = try_stage(aws.client, outputs, STAGE, environment)

    job = run.rpartition("/")[2]
    s3 = aws.client("s3")
    known = {
        name: s3.list_objects_v2(Bucket=each["StateBucketName"], Prefix=f"checkpoints/{job}/")
        for name, each in (("own", outputs), ("other", aws.outputs))
    }
    assert known["own"]["KeyCount"] == 1
    assert known["other"]["KeyCount"] == 0
