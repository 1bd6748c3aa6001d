"""Every format against the fields and limits that its service documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tocsin.actions.endpoint import Endpoint, request_of
from tocsin.actions.formats import FORMATS, Format

from tests.unit.actions.formats.test_formats import SUMMARY, alert, event

SCHEMAS = json.loads(Path("tests/fixtures/webhooks/schemas.json").read_text())
MOST_BYTES = {"teams": 28_000, "googlechat": 32_000, "pagerduty": 512_000}
REPORT = {"Page": "https://r.example/page", "Console": "https://r.example/console"}


def refused(form: Format, given_: dict[str, Any]) -> list[str]:
    """Return the faults for which the service would refuse the body."""
    endpoint = Endpoint("https://x.example/", format=form, routing_key="key")
    body, _ = request_of(endpoint, given_, "k", 0.0)
    errors = Draft202012Validator(SCHEMAS[form]).iter_errors(json.loads(body))
    large = len(body) > MOST_BYTES.get(form, 1 << 20)
    return [error.message for error in errors] + ["too large"] * large


def test_every_format_of_a_service_has_a_schema() -> None:
    assert {*SCHEMAS} == {*FORMATS} - {"json"}
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("form", SCHEMAS)
@settings(max_examples=15, deadline=None)
@given(
    name=st.text(min_size=1).map(lambda text: (text * 400)[:1024]) | st.just("<&*_[a](b)@" * 90),
    many=st.integers(0, 60),
)
def test_a_service_takes_any_alerts(form: Format, name: str, many: int) -> None:
    loud = alert(RuleConfigurationName=name, StatusDetails=name * 3, Tensor=name)
    assert refused(form, event(firing=[loud] * many, more=[name] * many, report=REPORT)) == []
    assert refused(form, event(resolved=[loud], ongoing=[name], severity="critical")) == []
    assert refused(form, event(withdrawn=[loud], Run=f"s3://b/{name}")) == []


@pytest.mark.parametrize("form", [form for form in SCHEMAS if form != "pagerduty"])
def test_a_service_takes_the_end_of_a_run(form: Format) -> None:
    assert refused(form, event(summary=SUMMARY)) == []


def test_a_body_that_is_wrong_is_refused() -> None:
    body = msgspec.to_builtins(FORMATS["discord"](event(firing=[alert()])))
    body["embeds"][0]["title"] = "x" * 257
    assert list(Draft202012Validator(SCHEMAS["discord"]).iter_errors(body))
