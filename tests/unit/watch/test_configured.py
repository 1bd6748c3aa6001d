from __future__ import annotations

from typing import Any

import pytest
from tocsin.rules import rule_names
from tocsin.watch import configured, encode_watch, faults, parse_watch, resolve, to_watch

PROFILE = rule_names("recommended")
TRAINING = rule_names("recommended", "training")
MACHINE = rule_names("recommended", "machine")


def names(content: dict[str, Any], about: str | None = None) -> tuple[str, ...]:
    return tuple(each.configuration_name for each in configured(to_watch(content), about))


def without(*dropped: str) -> tuple[str, ...]:
    return tuple(name for name in PROFILE if name not in dropped)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param({}, PROFILE, id="the profile"),
        pytest.param({"rules": ["LossSpike"]}, ("LossSpike",), id="its own alone"),
        pytest.param({"rules": []}, (), id="none"),
        pytest.param({"extend_profile": True}, PROFILE, id="nothing to change"),
        pytest.param(
            {"extend_profile": True, "rules": ["LossSpike"]},
            (*without("LossSpike"), "LossSpike"),
            id="one changed",
        ),
        pytest.param(
            {
                "extend_profile": True,
                "rules": [{"rule": "LossSpike", "name": "a"}, {"rule": "LossSpike", "name": "b"}],
            },
            (*without("LossSpike"), "a", "b"),
            id="one twice",
        ),
        pytest.param({"disable": ["LossSpike"]}, without("LossSpike"), id="one less"),
        pytest.param(
            {"rules": ["LossSpike", "Overfit"], "disable": ["Overfit"]},
            ("LossSpike",),
            id="one less of its own",
        ),
    ],
)
def test_the_rules_that_run(content: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert names(content) == expected
    kept = parse_watch(encode_watch(to_watch(content)))
    assert tuple(each.name for each in resolve(kept)[0]) == expected


@pytest.mark.parametrize(
    ("content", "training", "machine"),
    [
        pytest.param({"rules": ["Overfit"]}, ("Overfit",), MACHINE, id="no rule about it"),
        pytest.param({"rules": ["MemoryLeak"]}, (), ("MemoryLeak",), id="one about it"),
        pytest.param(
            {"extend_profile": True, "rules": ["Overfit"]},
            (*(name for name in TRAINING if name != "Overfit"), "Overfit"),
            MACHINE,
            id="extended",
        ),
    ],
)
def test_a_training_and_its_machine(content: Any, training: Any, machine: Any) -> None:
    assert names(content, "training") == training
    assert names(content, "machine") == machine


def test_a_disabled_baseline_rule_stays_away() -> None:
    content = {"baseline": "good", "disable": ["WorseThanBaseline"]}
    found = {each.name for each in resolve(to_watch(content))[0]}
    assert "WorseThanBaseline" not in found


def test_a_misspelt_name_is_a_fault() -> None:
    [fault] = faults(to_watch({"disable": ["LossSpik"]}))
    assert str(fault) == "disable[0]: unknown rule 'LossSpik': did you mean LossSpike?"


def test_a_rule_of_the_profile_may_inhibit() -> None:
    rules = [{"rule": "Overfit", "inhibits": ["LossSpike"]}]
    assert not [*faults(to_watch({"extend_profile": True, "rules": rules}))]
    assert [*faults(to_watch({"rules": rules}))]


def test_an_older_deployment_reads_the_file_of_a_hook() -> None:
    assert {"extend_profile", "disable"}.isdisjoint(encode_watch(to_watch({})).decode().split('"'))
