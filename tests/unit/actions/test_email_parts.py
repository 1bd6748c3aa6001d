from __future__ import annotations

import shlex
from fnmatch import fnmatchcase
from typing import Any

import pytest
from tocsin.actions import Links, ReportLinks
from tocsin.actions.email_parts import how_to_silence, see_more


def test_see_more(world: Any) -> None:
    assert see_more("s3://captures/j1", world.lookups) == (
        "To see more:\n  tocsin status s3://captures/j1 --actions\n  tocsin check s3://captures/j1"
    )
    world.links = Links("https://d.example")
    assert see_more("s3://captures/j1", world.lookups).endswith("\n  https://d.example")


def test_the_report_opens_by_its_link_or_in_the_console(world: Any) -> None:
    world.report = ReportLinks("https://s3.example/r?X-Amz-Signature=1", "https://c.example/")
    text = see_more("s3://captures/j1", world.lookups)
    assert "\n  https://s3.example/r?X-Amz-Signature=1\n" in text
    assert "Anyone with this link can open it\nfor up to 12 hours" in text
    assert text.endswith("\n  https://c.example/")


def test_what_others_name_is_quoted(ask: Any, world: Any) -> None:
    text = see_more("s3://captures/a b/$(reboot)", world.lookups)
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
