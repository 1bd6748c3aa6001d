from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from infra.constants import ROOT
from infra.options import OptionError, Options, read_options


def test_without_context_every_option_has_its_default() -> None:
    assert read_options({}) == Options()


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("captureBucket", "our.runs-1", "capture_bucket", "our.runs-1"),
        ("captureBucket", "", "capture_bucket", None),
        ("capturePrefix", "team/jobs", "capture_prefix", "team/jobs/"),
        ("capturePrefix", "/team/", "capture_prefix", "team/"),
        ("capturePrefix", "/", "capture_prefix", ""),
        ("emails", "a@example.com", "emails", ("a@example.com",)),
        ("emails", "a@example.com, b@example.com,", "emails", ("a@example.com", "b@example.com")),
        ("emails", '["a@example.com"]', "emails", ("a@example.com",)),
        ("emails", ["a@example.com", "a@example.com"], "emails", ("a@example.com",)),
        ("emails", [], "emails", ()),
        ("phones", "+15551230000", "phones", ("+15551230000",)),
        ("allowedRecipients", "*@example.com,+15551230000", "allowed_recipients", None),
        ("watchFile", "pyproject.toml", "watch_file", ROOT / "pyproject.toml"),
        ("architecture", "x86_64", "architecture", "x86_64"),
        ("jobMetrics", False, "job_metrics", False),
        ("jobMetrics", "False", "job_metrics", False),
        ("retainDays", "30", "retain_days", 30),
        ("retainDays", 365, "retain_days", 365),
        ("emails", None, "emails", ()),
    ],
)
def test_reads_json_values_and_text(key: str, value: Any, field: str, expected: Any) -> None:
    read = getattr(read_options({key: value}), field)
    assert read == (("*@example.com", "+15551230000") if expected is None and read else expected)


@pytest.mark.parametrize(
    ("key", "value", "mend"),
    [
        ("captureBucket", "s3://bucket", "a bucket's name"),
        ("captureBucket", 7, "a bucket's name"),
        ("capturePrefix", "team/*", "without wildcards"),
        ("capturePrefix", "a//b", "without wildcards"),
        ("capturePrefix", "${aws:username}", "without wildcards"),
        ("captureKeyArn", "arn:aws:kms:eu-west-1:111122223333:alias/mine", "not of an alias"),
        ("emails", "ops", "ops@example.com"),
        ("emails", "a@example.com,*@example.com", "ops@example.com"),
        ("emails", '["a@example.com"', "a list"),
        ("emails", {"to": "a@example.com"}, "a list"),
        ("emails", [7], "ops@example.com"),
        ("phones", "0155512", "+15551230000"),
        ("allowedRecipients", "*", "*@example.com"),
        ("watchFile", "no/such/file.yaml", "a file that exists"),
        ("watchFile", 7, "a file that exists"),
        ("architecture", "ARM64", "arm64 or x86_64"),
        ("jobMetrics", "yes", "true or false"),
        ("jobMetrics", 1, "true or false"),
        ("retainDays", 31, "one of (1, 3, 5"),
        ("retainDays", "forever", "one of (1, 3, 5"),
        ("retainDays", True, "one of (1, 3, 5"),
        ("tocsin:layerRuntime", "docker", "lambda or local"),
    ],
)
def test_a_wrong_value_says_what_where_and_how_to_mend_it(key: str, value: Any, mend: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_options({key: value})
    message = str(caught.value)
    assert message.startswith(f"option {key} is ")
    assert mend in message
    assert f"-c {key}=" in message
    assert "\n" not in message


def test_a_misspelt_option_is_not_ignored() -> None:
    with pytest.raises(OptionError, match=r"unknown option email in CDK context: .* emails"):
        read_options({"email": "a@example.com"})


def test_what_belongs_to_others_is_left_alone() -> None:
    others = {"@aws-cdk/core:emails": True, "aws:cdk:emails": [], "colour": "blue"}
    assert read_options(others) == Options()


def test_a_local_layer_needs_its_interpreter() -> None:
    python = {"tocsin:localPython": sys.executable}
    local = {"tocsin:layerRuntime": "local"}
    assert read_options(python | local).local_python == Path(sys.executable)
    for half in (python, local, python | {"tocsin:layerRuntime": "lambda"}):
        with pytest.raises(OptionError, match="go together"):
            read_options(half)
