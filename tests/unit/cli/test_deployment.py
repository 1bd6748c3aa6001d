"""Whom a deployment tells."""

from __future__ import annotations

import json

import pytest
from tocsin.cli._deployment import Told, told


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], Told()),
        ({}, Told()),
        ({"context": 7}, Told()),
        ({"context": {"captureBucket": "b"}}, Told()),
        ({"context": {"webhooks": ["ops"]}}, Told((), ("ops",))),
        (
            {"context": {"emails": "a@b.co,c@d.co", "phones": ["+1555123"]}},
            Told(("a@b.co", "c@d.co", "+1555123"), ()),
        ),
        ({"context": {"allowedRecipients": '["*@b.co"]'}}, Told(("*@b.co",), ())),
        ({"context": {"allowedRecipients": "[", "emails": 7, "phones": None}}, Told((), ())),
    ],
)
def test_of_the_file(tmp_path, content, expected):
    file = tmp_path / "cdk.json"
    file.write_text(json.dumps(content))
    assert told((), file) == expected


def test_without_a_file_nothing_is_known(tmp_path):
    assert told((), tmp_path / "cdk.json") == Told()


def test_the_command_line_goes_before_the_file(tmp_path):
    file = tmp_path / "cdk.json"
    file.write_text("not even JSON")
    assert told(["a@b.co", "webhook:ops"], file) == Told(("a@b.co",), ("ops",))
