"""The built wheel in a CDK app that is not ours: it brings all that it deploys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
APP = """
import tocsin, tocsin_cdk
from aws_cdk import App, Stack
from tocsin_cdk import OptionError, Tocsin

print(tocsin.__file__, tocsin_cdk.__file__)
app = App()
stack = Stack(app, "Training")
tocsin = Tocsin(stack, "Tocsin", capture_bucket="our-runs", emails=["a@example.com"], stage="dev",
                concurrency={"evaluate": 20})
tocsin.alerts.topic_arn, tocsin.training_policy.managed_policy_arn, tocsin.bus.event_bus_name
try:
    Tocsin(Stack(app, "Wrong"), "Tocsin", capture_buckets="our-runs")
except OptionError as error:
    print(error)
    app.node.try_remove_child("Wrong")
app.synth()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip would put into an environment."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("tocsin-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_a_foreign_app_is_synthesised(site: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    out = tmp_path / "out"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(site),
        "CDK_OUTDIR": str(out),
        "CDK_CONTEXT_JSON": json.dumps({"aws:cdk:bundling-stacks": []}),
    }
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    places, refused = done.stdout.splitlines()
    assert all(place.startswith(str(site)) for place in places.split())
    assert refused == "Tocsin has no option capture_buckets: did you mean capture_bucket?"
    template: dict[str, Any] = json.loads((out / "Training.template.json").read_text())
    assert {"StateBucketName", "StateTableName", "TocsinVersion"} <= set(template["Outputs"])
    functions = [each for each in template["Resources"].values() if "Handler" in str(each)]
    assert len([each for each in functions if each["Type"] == "AWS::Lambda::Function"]) == 4
    handlers = {file.read_text() for file in out.glob("asset.*/handler.py")}
    assert len(handlers) == 4
    for name in ("act", "evaluate", "patrol"):
        assert (ROOT / "functions" / name / "handler.py").read_text() in handlers
