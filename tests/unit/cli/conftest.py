"""The command line in this process, and runs to point it at."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from botocore.stub import Stubber
from tocsin.cli import app
from tocsin.evaluation import check
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, Captured, Collection, LocalStorage, RunWriter
from typer.testing import CliRunner

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "smdebug"
SAMPLES = sorted(path.parent.name for path in _FIXTURES.glob("*/expected.json"))


@dataclass(frozen=True)
class Said:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as the one document that it must be; NaN and the like are not JSON."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))

    @property
    def complaint(self) -> str:
        """The one line on stderr of a command that was refused."""
        assert (self.code, self.out) == (2, "")
        (line,) = self.err.splitlines()
        assert line.startswith("tocsin: ")
        assert "Traceback" not in line
        assert "│" not in line
        return line.removeprefix("tocsin: ")


Command = Callable[..., Said]


@pytest.fixture
def tocsin(monkeypatch: pytest.MonkeyPatch) -> Command:
    """``tocsin(*arguments)``."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")

    def command(*arguments: str | Path) -> Said:
        result = CliRunner().invoke(app, [str(item) for item in arguments], prog_name="tocsin")
        return Said(result.exit_code, result.stdout, result.stderr)

    return command


@dataclass(frozen=True)
class Sample:
    """A run that smdebug wrote, and what its own reader says of it."""

    name: str
    path: Path
    trial: dict[str, Any]


@pytest.fixture(params=SAMPLES)
def sample(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Sample:
    """Each of smdebug's runs in turn, checked half a minute after it was written: nothing is still
    on its way, but a slower worker is still waited for, as smdebug does."""
    folder = _FIXTURES / request.param
    expected = json.loads((folder / "expected.json").read_text())
    source = next(p for p in (folder / "run", folder / "tensors") if p.is_dir())
    path = shutil.copytree(source, tmp_path / request.param)
    then = time.time() - 3600
    for file in path.rglob("*"):
        os.utime(file, (then, then))
    monkeypatch.setattr("tocsin.cli.check.check", partial(check, now=lambda: then + 30))
    return Sample(request.param, path, expected["trial"])


@pytest.fixture
def ill(tmp_path: Path) -> Path:
    """A finished run in which gradients vanish at step 20 and the loss is NaN at step 50."""
    return write_ill(tmp_path / "jobs" / "j1" / "debug-output")


def write_ill(path: Path) -> Path:
    storage = LocalStorage(path)
    writer = RunWriter(storage, run_id="r1")
    writer.write_collections(
        [
            Collection("losses", include_regex=("^loss$",)),
            Collection("gradients", include_regex=("^gradient",)),
        ]
    )
    for step in range(0, 60, 10):
        writer.write(
            step,
            Mode.TRAIN,
            step // 10,
            [
                Captured("loss", np.float32(np.nan if step == 50 else 2.0)),
                Captured("gradient/w", np.full(4, 1e-9 if step >= 20 else 1e-2)),
            ],
        )
    storage.write(END_MARKER, b"")
    return path


def write_run(
    path: Path,
    steps: int,
    names: str,
    *,
    modes: tuple[Mode, ...] = (Mode.TRAIN,),
    loss_in: tuple[Mode, ...] = (Mode.TRAIN, Mode.EVAL),
    end: bool = True,
) -> Path:
    """A run that is healthy as far as can be seen. ``names`` of what it captures: ``loss``,
    ``weight``, and ``gradient``, which has weights beside it.
    """
    storage, writer = LocalStorage(path), RunWriter(LocalStorage(path), run_id="r1")
    writer.write_collections([Collection("losses", include_regex=("^loss$",))])
    values = np.random.default_rng(0).normal(size=(4, 8))
    for step in range(steps):
        mode = modes[step % len(modes)]
        tensors = []
        if "loss" in names and mode in loss_in:
            tensors.append(Captured("loss", np.float32(1 / (step + 1))))
        if "weight" in names or "gradient" in names:
            tensors.append(Captured("fc.weight", values * (1 + step / 1000)))
        if "gradient" in names:
            tensors.append(Captured("gradient/fc.weight", values / 10))
        writer.write(step, mode, step // len(modes), tensors)
    if end:
        storage.write(END_MARKER, b"")
    return path


@pytest.fixture
def aws(aws_in_process: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An S3 client of an AWS that is in this process only."""
    for name in [name for name in os.environ if name.startswith("TOCSIN_")]:
        monkeypatch.delenv(name)
    client = boto3.client("s3")
    client.create_bucket(Bucket="capture")
    client.create_bucket(Bucket="state")
    return client


@pytest.fixture
def upload(aws: Any) -> Callable[[Path, str], str]:
    """Puts a folder at a prefix of bucket ``capture``; the run's URL."""

    def put(folder: Path, prefix: str) -> str:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                key = f"{prefix}/{file.relative_to(folder).as_posix()}"
                aws.put_object(Bucket="capture", Key=key, Body=file.read_bytes())
        return f"s3://capture/{prefix}"

    return put


@pytest.fixture
def stack(aws: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stack's table ``alerts`` and its topic, named in the environment; a DynamoDB client."""
    dynamodb = boto3.client("dynamodb")
    dynamodb.create_table(
        TableName="alerts",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    topic = boto3.client("sns").create_topic(Name="alerts")["TopicArn"]
    monkeypatch.setenv("TOCSIN_STATE_TABLE", "alerts")
    monkeypatch.setenv("TOCSIN_TOPIC_ARN", topic)
    return dynamodb


@pytest.fixture
def stacks(aws: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    """CloudFormation with prepared answers."""
    client = boto3.client("cloudformation")
    monkeypatch.setattr("tocsin.cli.stack.real_client", lambda service: client)
    with Stubber(client) as stubber:
        yield stubber
