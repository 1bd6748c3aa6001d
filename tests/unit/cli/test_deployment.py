"""The recipients that a deployment allows."""

from __future__ import annotations

import json

import pytest
from tocsin.cli.lint import Allowed, allowed


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], Allowed()),
        ({}, Allowed()),
        ({"context": 7}, Allowed()),
        ({"context": {"captureBucket": "b"}}, Allowed()),
        ({"context": {"webhooks": ["ops"]}}, Allowed((), ("ops",))),
        (
            {"context": {"emails": "a@b.co,c@d.co", "phones": ["+1555123"]}},
            Allowed(("a@b.co", "c@d.co", "+1555123"), ()),
        ),
        ({"context": {"allowedRecipients": '["*@b.co"]'}}, Allowed(("*@b.co",), ())),
        ({"context": {"allowedRecipients": "[", "emails": 7, "phones": None}}, Allowed((), ())),
    ],
)
def test_of_the_file(tmp_path, content, expected):
    file = tmp_path / "cdk.json"
    file.write_text(json.dumps(content))
    assert allowed((), file) == expected


def test_without_a_file_nothing_is_known(tmp_path):
    assert allowed((), tmp_path / "cdk.json") == Allowed()


def test_the_command_line_goes_before_the_file(tmp_path):
    file = tmp_path / "cdk.json"
    file.write_text("not even JSON")
    assert allowed(["a@b.co", "webhook:ops"], file) == Allowed(("a@b.co",), ("ops",))
