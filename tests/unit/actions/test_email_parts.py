from __future__ import annotations

import shlex
from fnmatch import fnmatchcase
from typing import Any

import pytest
from tocsin.actions import Links
from tocsin.actions.email_parts import how_to_silence, see_more


def test_see_more() -> None:
    assert see_more("s3://captures/j1", Links()) == (
        "To see more:\n  tocsin status s3://captures/j1 --actions\n  tocsin check s3://captures/j1"
    )
    assert see_more("s3://captures/j1", Links("https://d.example")).endswith(
        "\n  https://d.example"
    )


def test_what_others_name_is_quoted(ask: Any) -> None:
    text = see_more("s3://captures/a b/$(reboot)", Links())
    assert "tocsin check 's3://captures/a b/$(reboot)'" in text
    assert "--rule '; reboot' " in how_to_silence(
        ask("email", {"RuleConfigurationName": "; reboot"})
    )


def test_silence_of_one(ask: Any) -> None:
    assert how_to_silence(ask("email")) == (
        "To silence this for two hours:\n"
        "  tocsin silence add --job j1 --rule VanishingGradient --for 2h --reason '…'"
    )


def test_silence_of_several(ask: Any) -> None:
    text = how_to_silence(
        ask("email", {"RuleConfigurationName": "a"}, {"RuleConfigurationName": "b"})
    )
    assert text.splitlines()[1:] == [
        "  tocsin silence add --job j1 --rule a --for 2h --reason '…'",
        "  tocsin silence add --job j1 --for 2h --reason '…'",
    ]


@pytest.mark.parametrize(
    "name", ["j1", "a*[b]?", "it's", "r" * 1024, "[" * 300, "a\nb", "実験\u202e", "-x", "a\u00a0b"]
)
def test_the_silence_matches_whatever_the_name(ask: Any, name: str) -> None:
    command = how_to_silence(ask("email", {"RuleConfigurationName": name})).splitlines()[1]
    words = shlex.split(command)
    pattern = words[words.index("--rule") + 1]
    assert fnmatchcase(name, pattern)
    assert pattern.isprintable()
    assert len(pattern) <= 256
