"""The section ``machine`` of a watch file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tocsin.rules import MACHINE, TRAINING, rule_names
from tocsin.watch import Machine, RuleConfig, Watch, encode_watch, parse_parts, parse_watch, resolve


def parsed(section: Any) -> tuple[Machine | None, list[str]]:
    watch, faults = parse_parts(json.dumps({"machine": section}).encode())
    return watch.machine, [str(fault) for fault in faults]


@pytest.mark.parametrize(
    ("section", "machine"),
    [
        ({}, Machine()),
        (None, Machine()),  # `machine:` alone
        ({"interval": "1s", "gpu": False}, Machine("1s", gpu=False)),
        ({"interval": 0.2, "gpu": "auto", "steps": False}, Machine(0.2, steps=False)),
    ],
)
def test_what_is_measured(section: Any, machine: Machine) -> None:
    assert parsed(section) == (machine, [])


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"interval": "soon"}, "machine.interval: 'soon' is not a time from 100ms to 60s"),
        ({"interval": "50ms"}, "machine.interval: '50ms' is not a time from 100ms to 60s"),
        ({"interval": "2m"}, "machine.interval: '2m' is not a time from 100ms to 60s"),
        ({"intervall": "1s"}, "machine.intervall: unknown key 'intervall': "),
        ({"gpu": "maybe"}, "machine.gpu: "),
        ("500ms", "machine: expected a mapping, got a text"),
    ],
)
def test_a_fault_leaves_the_default(section: Any, says: str) -> None:
    machine, (fault,) = parsed(section)
    assert machine == Machine()
    assert fault.startswith(says)


def test_without_the_section_nothing_is_measured() -> None:
    for watch in (Watch(), Watch(machine=Machine("1s"))):
        assert parse_watch(encode_watch(watch)).machine == watch.machine


def test_rules_of_both_kinds_of_run() -> None:
    named = Watch(rules=(RuleConfig("LossSpike"), RuleConfig("Unknown")))
    watched, refused = resolve(named, MACHINE)
    assert [rule.name for rule in watched] == list(rule_names("recommended", MACHINE))
    assert refused == ()
    watched, refused = resolve(named, TRAINING)
    assert [rule.name for rule in (*watched, *refused)] == ["LossSpike", "Unknown"]
    both = {*rule_names(None, MACHINE), *rule_names(None, TRAINING)}
    assert both == set(rule_names())
