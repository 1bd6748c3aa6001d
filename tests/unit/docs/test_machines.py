"""The files of docs/machines run. Commands of a cluster are small scripts on PATH: none is here."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import numpy as np
import pytest
import yaml
from moto import mock_aws
from tocsin.cli.metrics import HELP
from tocsin_hooks import TrainingStopped

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
MACHINES = ROOT / "examples" / "machines"
DIVERGES = "--rate 1.9 --steps 100000 --pause 0.01"


class Cluster:
    """A folder with the files of a page, and commands that write down how they were called."""

    def __init__(self, folder: Path, commands: Mapping[str, str]) -> None:
        self.folder, self.calls = folder, folder / "calls"
        for file in ("train.py", "watch.yaml", "slurm.sbatch"):
            shutil.copy(MACHINES / file, folder)
        binaries = folder / "bin"
        binaries.mkdir()
        every = {"tocsin": 'exec python -m tocsin "$@"', "python": f'exec {sys.executable} "$@"'}
        for name, script in {**every, **commands}.items():
            log = "" if name in every else f'echo "{name} $*" >> {self.calls}\n'
            (binaries / name).write_text(f"#!/bin/bash\n{log}{script}\n")
            (binaries / name).chmod(0o755)
        paths = os.pathsep.join(str(ROOT / room) for room in ("rules_layer", "hooks"))
        self.environment = {
            **os.environ,
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": paths,
        }

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    @property
    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def slurm(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, {"srun": '"$@"', "scancel": "true", "scontrol": "true"})


def test_a_slurm_job_that_diverges_is_cancelled(slurm: Cluster) -> None:
    done = slurm.run("bash", "slurm.sbatch", SLURM_JOB_ID="42", TRAIN_ARGUMENTS=DIVERGES)
    assert "scancel 42" in slurm.called
    assert "scontrol requeue 42" not in slurm.called
    assert "ran scancel" in done.stderr
    assert (slurm.folder / "runs" / "42" / "STOP.json").exists()


def test_a_slurm_job_that_is_well_ends(slurm: Cluster) -> None:
    done = slurm.run("bash", "slurm.sbatch", SLURM_JOB_ID="42", TRAIN_ARGUMENTS="--steps 50")
    assert (done.returncode, [each.split()[0] for each in slurm.called]) == (0, ["srun"])


def test_a_slurm_job_that_crashes_ends(slurm: Cluster) -> None:
    done = slurm.run("bash", "slurm.sbatch", SLURM_JOB_ID="42", TRAIN_ARGUMENTS="--no-such")
    assert done.returncode == 2


def test_a_slurm_job_without_time_is_requeued(slurm: Cluster) -> None:
    late = f'kill -USR1 "$PPID"; {shlex.quote(sys.executable)} -c "import time; time.sleep(2)"'
    (slurm.folder / "bin" / "srun").write_text(f"#!/bin/bash\n{late}\n")
    done = slurm.run("bash", "slurm.sbatch", SLURM_JOB_ID="42")
    assert (done.returncode, slurm.called) == (0, ["scontrol requeue 42"])


def test_the_sidecar_deletes_the_job(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all((MACHINES / "kubernetes.yaml").read_text()))
    by_kind = {document["kind"]: document for document in documents}
    pod = by_kind["Job"]["spec"]["template"]["spec"]
    (judge,), (training,) = pod["initContainers"], pod["containers"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounts = [*judge["volumeMounts"], *training["volumeMounts"]]
    assert {mount["name"] for mount in mounts} == volumes
    assert pod["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
    (rule,) = by_kind["Role"]["rules"]
    assert "delete" in rule["verbs"]
    assert rule["resourceNames"] == [by_kind["Job"]["metadata"]["name"]]
    assert judge["restartPolicy"] == "Always"

    cluster = Cluster(tmp_path, {"kubectl": "true"})
    (tmp_path / "watch.yaml").write_text(by_kind["ConfigMap"]["data"]["watch.yaml"])
    environment = {each["name"]: each["value"] for each in judge["env"]}
    (arguments,) = judge["args"]
    local = arguments.replace("/runs/", f"{tmp_path}/runs/").replace("/watch/", f"{tmp_path}/")
    train = [each.replace("/runs/", f"{tmp_path}/runs/") for each in training["command"]]
    job = f"{shlex.join(train)} {DIVERGES} & {local}; wait"
    cluster.run("sh", "-c", job, **environment)
    assert cluster.called == [f"kubectl delete job {environment['JOB']} --wait=false"]


def test_the_service_judges_a_run(tmp_path: Path) -> None:
    unit = (MACHINES / "tocsin@.service").read_text()
    assert re.search(r"^SuccessExitStatus=0 1$", unit, re.MULTILINE)
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    cluster = Cluster(tmp_path, {"notify-send": "true"})
    cluster.run("python", "train.py", "--out", str(tmp_path / "first"), "--rate", "1.9")
    replaced = {
        "/opt/tocsin/bin/": "",
        "/srv/runs/%i": str(tmp_path / "first"),
        "/etc/tocsin.yaml": "watch.yaml",
        "${TOCSIN_TARGET}": "desktop",
    }
    for what, there in replaced.items():
        assert what in line
        line = line.replace(what, there)
    done = cluster.run(*shlex.split(line))
    assert done.returncode == 1
    assert cluster.called[0].startswith("notify-send --app-name=Tocsin -- ")


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, MACHINES / f"{name}.py")
    assert spec
    assert spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_worker_of_ray_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_world_rank=lambda: 0)
    train = SimpleNamespace(get_context=lambda: context, report=lambda metrics: None)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(train=train))
    config: dict[str, Any] = {"out": str(tmp_path / "run"), "watch": module("ray_train").WATCH}
    with (
        np.errstate(all="ignore"),
        pytest.raises(TrainingStopped, match="stops the training"),
    ):
        module("ray_train").train_loop({**config, "steps": 10**9, "rate": 1.9})


def test_a_job_of_model_trainer_names_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    started: dict[str, Any] = {}
    configs = SimpleNamespace(SourceCode=dict, Tag=dict)

    class ModelTrainer:
        def __init__(self, **options: Any) -> None:
            started.update(options)

        def train(self, wait: bool) -> None:
            started["wait"] = wait

    with mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        s3.create_bucket(Bucket="bucket")
        trainer = SimpleNamespace(ModelTrainer=ModelTrainer, configs=configs)
        module("model_trainer").start(trainer, "bucket", "role", "image", "first")
        watch = json.loads(
            s3.get_object(Bucket="bucket", Key="jobs/first/watch.json")["Body"].read()
        )
    assert watch["rules"]
    assert started["environment"] == {"TOCSIN_RUN": "s3://bucket/jobs/first"}
    assert started["tags"] == [{"key": "tocsin:run", "value": "s3://bucket/jobs/first"}]
    assert "train.py --out s3://bucket/jobs/first" in started["source_code"]["command"]


def test_the_notebook_runs(tmp_path: Path) -> None:
    cells = json.loads((MACHINES / "colab.ipynb").read_text())["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert code[0].startswith("%pip install")
    done = Cluster(tmp_path, {}).run("python", "-c", "\n".join(code[1:]))
    assert (done.returncode, "LossDiverging" in done.stderr) == (0, True)


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    dashboard = json.loads((MACHINES / "grafana.json").read_text())
    asked = {each["expr"] for panel in dashboard["panels"] for each in panel["targets"]}
    names = {name for expression in asked for name in re.findall(r"tocsin_\w+", expression)}
    assert names
    assert names <= {*HELP}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len({*ids}) == len(ids)


def test_the_page_of_metrics_has_them_all() -> None:
    page = (ROOT / "docs" / "watch.md").read_text()
    assert {*re.findall(r"`(tocsin_\w+)`", page)} == {*HELP}
