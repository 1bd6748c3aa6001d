"""The deployment's webhooks, with their parameters in SSM."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from tocsin.actions import UnknownEndpoint
from tocsin.actions.endpoint import signature
from tocsin.aws.ssm import Endpoints

DOCUMENT = Path(__file__).parents[2] / "docs" / "webhooks.md"
URL = "https://hooks.example.com/services/T0/hidden"
SECRET = "very-hidden"
EVENT = {
    "source": "tocsin",
    "detail-type": "Tocsin Alert",
    "id": "k1",
    "reason": "first_notification",
    "TrainingJobName": "j1",
    "Run": "s3://captures/jobs/j1/debug-output",
    "more": ["Überfit"],
}


@dataclass
class Deployment:
    """SSM, a clock, and what was sent."""

    ssm: Any
    now: float = 1_000_000.0
    sent: list[tuple[str, bytes, Mapping[str, str]]] = field(default_factory=list)

    def endpoints(self, *names: str) -> Endpoints:
        return Endpoints(
            self.ssm, names, send=lambda *all_: self.sent.append(all_), now=lambda: self.now
        )

    def put(self, value: str, name: str = "ops") -> None:
        self.ssm.put_parameter(
            Name=f"/tocsin/webhooks/{name}", Type="SecureString", Value=value, Overwrite=True
        )


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield Deployment(boto3.client("ssm"))


def written(**fields: str) -> str:
    return msgspec.json.encode({"url": URL, **fields}).decode()


def verify(body: bytes, header: str, secret: str, now: float) -> bool:
    """As the document tells those who receive."""
    [code] = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - a document of ours
    return bool(names["genuine"](body, header, secret, now))


def test_posts_what_is_signed(deployment: Deployment) -> None:
    deployment.put(written(secret=SECRET))
    deployment.endpoints("ops").post("ops", EVENT, "k1")
    [(url, body, headers)] = deployment.sent
    assert url == URL
    assert msgspec.json.decode(body) == EVENT
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Tocsin-Id"] == "k1"
    assert headers["User-Agent"].startswith("tocsin")
    signed = headers["X-Tocsin-Signature"]
    assert verify(body, signed, SECRET, deployment.now)
    assert verify(body, signed, SECRET, deployment.now + 299)
    assert not verify(body, signed, SECRET, deployment.now + 301)
    assert not verify(body + b" ", signed, SECRET, deployment.now)
    assert not verify(body, signed, "another", deployment.now)
    assert not verify(body, signed.replace("t=1000000", "t=1000001"), SECRET, deployment.now)


def test_a_signature_is_what_other_languages_make_of_it() -> None:
    # printf '1000000.{"a":1}' | openssl dgst -sha256 -hmac very-hidden
    assert (
        signature(SECRET, b'{"a":1}', 1_000_000)
        == "t=1000000,v1=1cb50b1c493067e691dfde75e6e8dbc6c275343c393d3e6dff909c0ed566a9ff"
    )


def test_without_a_secret_there_is_no_signature(deployment: Deployment) -> None:
    deployment.put(written())
    deployment.endpoints("ops").post("ops", EVENT, "k\r\n1: ü")
    [(_, _, headers)] = deployment.sent
    assert "X-Tocsin-Signature" not in headers
    assert headers["X-Tocsin-Id"] == "k 1: u"


@pytest.mark.parametrize(
    ("fields", "keys", "kind"),
    [
        ({"format": "slack"}, {"text", "blocks"}, "application/json"),
        ({"format": "teams"}, {"type", "attachments"}, "application/json"),
        (
            {"format": "pagerduty", "routing_key": "R0"},
            {"routing_key", "event_action", "dedup_key"},
            "application/json",
        ),
        (
            {"format": "cloudevents"},
            {"specversion", "type", "source", "id", "subject", "datacontenttype", "data"},
            "application/cloudevents+json",
        ),
    ],
    ids=lambda value: value.get("format") if isinstance(value, dict) else "",
)
def test_services_get_their_own_form(
    deployment: Deployment, fields: dict[str, str], keys: set[str], kind: str
) -> None:
    deployment.put(written(**fields))
    deployment.endpoints("ops").post("ops", EVENT, "k1")
    [(_, body, headers)] = deployment.sent
    found = msgspec.json.decode(body)
    assert found.keys() == keys
    assert found.get("routing_key") == fields.get("routing_key")
    assert headers["Content-Type"] == kind


@pytest.mark.parametrize("fields", [{"format": "pagerduty"}, {"routing_key": "hidden"}])
def test_a_routing_key_goes_with_pagerduty(deployment: Deployment, fields: dict[str, str]) -> None:
    deployment.put(written(**fields))
    with pytest.raises(UnknownEndpoint, match="routing_key") as refused:
        deployment.endpoints("ops").post("ops", EVENT, "k1")
    assert "hidden" not in str(refused.value)


def test_a_parameter_is_remembered_for_five_minutes(deployment: Deployment) -> None:
    endpoints = deployment.endpoints("ops")
    deployment.put(written())
    endpoints.post("ops", EVENT, "k1")
    deployment.put('{"url": "https://other.example.com/"}')
    for later in (299.0, 1.0):
        deployment.now += later
        endpoints.post("ops", EVENT, "k1")
    urls = [url for url, _, _ in deployment.sent]
    assert urls == [URL, URL, "https://other.example.com/"]


def test_what_is_mended_works_at_once(deployment: Deployment) -> None:
    endpoints = deployment.endpoints("ops")
    with pytest.raises(UnknownEndpoint):
        endpoints.post("ops", EVENT, "k1")
    deployment.put(written())
    endpoints.post("ops", EVENT, "k1")
    assert len(deployment.sent) == 1


@pytest.mark.parametrize(
    ("names", "told"), [((), "lists none"), (("b", "a"), "webhooks lists a, b")]
)
def test_only_endpoints_of_the_deployment(
    deployment: Deployment, names: tuple[str, ...], told: str
) -> None:
    deployment.put(written(), "../other")
    deployment.put(written())
    for name in ("ops", "../other"):
        with pytest.raises(UnknownEndpoint, match=told):
            deployment.endpoints(*names).post(name, EVENT, "k1")


@pytest.mark.parametrize(
    "value",
    [
        URL,
        "[]",
        '{"secret": "very-hidden"}',
        written(format="very-hidden"),
        written(colour="very-hidden"),
        '{"url": 7}',
        written(url="http://hooks.example.com/services/T0/hidden"),
        written(url="https://me:hidden@hooks.example.com/"),
        written(url="https://hooks.example.com:hidden/"),
    ],
)
def test_a_bad_parameter_is_told_without_its_secrets(deployment: Deployment, value: str) -> None:
    deployment.put(value)
    with pytest.raises(UnknownEndpoint, match=r"/tocsin/webhooks/ops.*must hold") as told:
        deployment.endpoints("ops").post("ops", EVENT, "k1")
    assert "hidden" not in str(told.value)
    assert told.value.__suppress_context__
    assert deployment.sent == []


def test_a_missing_parameter_is_told(deployment: Deployment) -> None:
    expected = "no parameter /tocsin/webhooks/ops: create a SecureString"
    with pytest.raises(UnknownEndpoint, match=expected):
        deployment.endpoints("ops").post("ops", EVENT, "k1")


def test_what_ssm_cannot_say_now_is_asked_again() -> None:
    class Throttled:
        def get_parameter(self, **_: Any) -> None:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "GetParameter")

    with pytest.raises(ClientError):
        Endpoints(Throttled(), ["ops"]).post("ops", EVENT, "k1")
