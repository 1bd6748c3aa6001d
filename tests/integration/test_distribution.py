"""The distribution: built, checked as an index checks it, installed into an empty environment, and
in a CDK app that is not ours, to which it brings all that it deploys.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
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
                concurrency={"evaluate": 20}, relaunch=["arn:aws:iam::111122223333:role/training"])
tocsin.alerts.topic_arn, tocsin.training_policy.managed_policy_arn, tocsin.bus.event_bus_name
try:
    Tocsin(Stack(app, "Wrong"), "Tocsin", capture_buckets="our-runs")
except OptionError as error:
    print(error)
    app.node.try_remove_child("Wrong")
app.synth()
"""


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={n: text for n, text in os.environ.items() if n != "PYTHONPATH"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, folder=ROOT)
    return folder


def test_it_installs_and_runs_where_nothing_else_is(built: Path, tmp_path: Path) -> None:
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source, folder=tmp_path)
    packages = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    packages = {name for name in packages if "dist-info" not in name}
    assert packages == {"tocsin", "tocsin_hooks", "tocsin_cdk"}
    empty = tmp_path / "empty"
    venv.create(empty, with_pip=False)
    python = empty / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-compile", f"{wheel}[cli]", folder=tmp_path)
    run(python, "-c", "import tocsin, tocsin_hooks", folder=tmp_path)
    assert "check" in run(empty / "bin" / "tocsin", "--help", folder=tmp_path)


def test_a_foreign_app_is_synthesised(built: Path, tmp_path: Path) -> None:
    site, out = tmp_path / "site", tmp_path / "out"
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:  # what pip would put into an environment
        archive.extractall(site)
    (tmp_path / "app.py").write_text(APP)
    said = run(
        sys.executable,
        "app.py",
        folder=tmp_path,
        HOME=str(tmp_path),
        PYTHONPATH=str(site),
        CDK_OUTDIR=str(out),
        CDK_CONTEXT_JSON=json.dumps({"aws:cdk:bundling-stacks": []}),
    )
    places, refused = said.splitlines()
    assert all(place.startswith(str(site)) for place in places.split())
    assert refused == "Tocsin has no option capture_buckets: did you mean capture_bucket?"
    template: dict[str, Any] = json.loads((out / "Training.template.json").read_text())
    assert {"StateBucketName", "StateTableName", "TocsinVersion"} <= set(template["Outputs"])
    functions = [
        each for each in template["Resources"].values() if each["Type"] == "AWS::Lambda::Function"
    ]
    handlers = {file.read_text() for file in out.glob("asset.*/handler.py")}
    sources = [*(ROOT / "functions").rglob("handler.py"), *(ROOT / "infra").rglob("handler.py")]
    assert handlers == {file.read_text() for file in sources}
    assert len(functions) == len(handlers)
