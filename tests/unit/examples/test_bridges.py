"""The bridges to Weights & Biases and MLflow, against a server on this machine."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from examples.bridges import mlflow_tag, wandb_alert
from tests.events import CHANGE

EVENT = {
    "source": "tocsin",
    "detail-type": "Tocsin Rule Evaluation Status Change",
    "detail": msgspec.to_builtins(CHANGE),
}


@dataclass
class Service:
    """Answers each path with what ``answers`` has, and keeps what it was asked."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any], str | None]] = field(default_factory=list)


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.asked.append((self.path, body, self.headers["Authorization"]))
            answer = json.dumps(found.answers[self.path]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def settings(service: Service, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    put(WANDB_BASE_URL=service.url, WANDB_API_KEY="k", WANDB_ENTITY="us", WANDB_PROJECT="digits")
    put(MLFLOW_TRACKING_URI=f"{service.url}/", MLFLOW_EXPERIMENT_ID="7")
    monkeypatch.delenv("MLFLOW_TRACKING_TOKEN", raising=False)
    return put


def test_an_alert_of_weights_and_biases(service: Service, settings: object) -> None:
    service.answers["/graphql"] = {"data": {"notifyScriptableRunAlert": {"success": True}}}
    wandb_alert.handler(EVENT, None)
    ((_, body, authorization),) = service.asked
    assert "notifyScriptableRunAlert" in body["query"]
    assert body["variables"] == {
        "entityName": "us",
        "projectName": "digits",
        "runName": CHANGE.training_job_name,
        "title": f"{CHANGE.rule_configuration_name} at step {CHANGE.step}",
        "text": CHANGE.status_details,
        "severity": wandb_alert.LEVELS[CHANGE.severity],
    }
    assert authorization == f"Basic {base64.b64encode(b'api:k').decode()}"


def test_a_refused_alert_is_tried_again(service: Service, settings: object) -> None:
    service.answers["/graphql"] = {"errors": [{"message": "no such run"}], "data": None}
    with pytest.raises(RuntimeError, match="no such run"):
        wandb_alert.handler(EVENT, None)


def test_a_tag_of_mlflow(service: Service, settings: Callable[..., None]) -> None:
    settings(MLFLOW_TRACKING_TOKEN="t")
    service.answers["/api/2.0/mlflow/runs/search"] = {"runs": [{"info": {"run_id": "4f1c"}}]}
    service.answers["/api/2.0/mlflow/runs/set-tag"] = {}
    mlflow_tag.handler(EVENT, None)
    (_, query, _), (_, tag, authorization) = service.asked
    assert query["experiment_ids"] == ["7"]
    assert query["filter"] == f"tags.`mlflow.runName` = '{CHANGE.training_job_name}'"
    assert tag == {
        "run_id": "4f1c",
        "key": f"tocsin.{CHANGE.rule_configuration_name}",
        "value": f"IssuesFound at step {CHANGE.step}: {CHANGE.status_details}",
    }
    assert authorization == "Bearer t"


def test_a_run_that_mlflow_does_not_have_yet(service: Service, settings: object) -> None:
    service.answers["/api/2.0/mlflow/runs/search"] = {}
    with pytest.raises(LookupError, match="no run of the name"):
        mlflow_tag.handler(EVENT, None)
