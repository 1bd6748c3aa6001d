"""``tocsin watch`` with the real clients of Prometheus, OpenTelemetry and MLflow."""

from __future__ import annotations

import gzip
import os
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, Captured, Collection, LocalStorage, RunWriter

from tests.frameworks.environment import ROOT, python_with

RULE = ("--rule", "ExplodingTensor")


@pytest.fixture
def run(tmp_path: Path) -> LocalStorage:
    """A run of three steps that has not ended; its last loss is NaN."""
    storage = LocalStorage(tmp_path / "run")
    writer = RunWriter(storage, run_id="r1")
    writer.write_collections([Collection("losses", include_regex=("^loss$",))])
    for step, loss in enumerate((2.0, 1.0, np.nan)):
        writer.write(step, Mode.TRAIN, step, [Captured("loss", np.float32(loss))])
    return storage


@contextmanager
def watching(storage: LocalStorage, *options: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """``tocsin watch`` of the run in the environment that has the clients."""
    given = os.environ | {"PYTHONPATH": f"{ROOT / 'rules_layer'}:{ROOT / 'hooks'}"} | env
    command = [python_with("exporters"), "-m", "tocsin", "watch", storage.url, *RULE, *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, env=given, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def line_with(process: subprocess.Popen[str], text: str) -> str:
    said = []
    for line in process.stdout:
        said.append(line)
        if text in line:
            return line
    raise AssertionError("".join(said))


def test_prometheus_fetches_what_rules_say(run: LocalStorage) -> None:
    with watching(run, "--prometheus", "127.0.0.1:0") as process:
        url = line_with(process, "metrics at ").split()[-1]
        line_with(process, "ExplodingTensor")
        fetched = urllib.request.urlopen(url, timeout=60).read()  # noqa: S310 - our own
    lines = fetched.decode().splitlines()
    named = f'run="{run.url}"'
    rule = '{rule="ExplodingTensor",' + named
    assert "# TYPE tocsin_rule_firing gauge" in lines
    assert f'tocsin_rule_firing{{rule="ExplodingTensor",{named},severity="critical"}} 1.0' in lines
    assert f'tocsin_rule_status{rule},status="IssuesFound"}} 1.0' in lines
    assert f"tocsin_last_step{{{named}}} 2.0" in lines
    assert f"tocsin_finished{{{named}}} 0.0" in lines
    assert any(each.startswith("tocsin_last_step_age_seconds") for each in lines)
    loss = f'tocsin_loss{{mode="TRAIN",{named},tensor="loss",worker="worker_0"}}'
    assert f"{loss} NaN" in lines


class _Collector(BaseHTTPRequestHandler):
    """Takes what is sent by OTLP."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        zipped = self.headers.get("Content-Encoding") == "gzip"
        self.server.bodies.append(gzip.decompress(body) if zipped else body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_otlp_gets_what_rules_say(run: LocalStorage) -> None:
    with HTTPServer(("127.0.0.1", 0), _Collector) as server:
        server.bodies = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}/v1/metrics"
        with watching(run, "--otlp", endpoint) as process:
            line_with(process, "ExplodingTensor")
            run.write(END_MARKER, b"")
            assert process.wait(60) == 1
        server.shutdown()
    assert b"tocsin_rule_firing" in server.bodies[-1]
    assert b"ExplodingTensor" in server.bodies[-1]


def test_mlflow_gets_a_tag_for_each_rule(run: LocalStorage, tmp_path: Path) -> None:
    uri = (tmp_path / "mlruns").as_uri()  # else it asks for a database
    store = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_ALLOW_FILE_STORE": "true"}
    client = "import mlflow; client = mlflow.MlflowClient()\n"
    made = python(f"{client}print(client.create_run('0').info.run_id)", **store)
    run.write(END_MARKER, b"")
    with watching(run, "--mirror", f"mlflow={made}", **store) as process:
        assert process.wait(120) == 1, process.stdout.read()
    tag = python(
        f"{client}print(client.get_run('{made}').data.tags['tocsin.ExplodingTensor'])", **store
    )
    assert tag.startswith("IssuesFound (critical) at step 2: loss is NaN")


def python(code: str, **env: str) -> str:
    """The last line that the code prints."""
    command = [python_with("exporters"), "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | env, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]
