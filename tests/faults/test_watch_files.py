"""Whatever a run's own watch file holds: it is used, or refused with a reason."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tocsin.rules import rule_names

from tests.faults.room import START, Room

FILES = 30  # for each seed
DEEPEST = 3
VALUES: list[Any] = [
    *(0, -1, 1, 1.5, 1e308, 2**63, -(2**63) - 1, 10**400, True, None, [], {}, [[]], {"": 1}),
    *("", "x", "9" * 5000, "1e999", "9" * 400 + "s", "nan", "inf", "-1s", "\0", "0x10", "١٢"),
    *("*" * 256, "[" * 256, "(?P<a>", "(?i)a{99999}", "\\p{", "email:", "metric:", "stop"),
    *("2026-12-01T08:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    *("GLOBAL", "critical", "1" * 30),
]
TOP = ["profile", "severity", "actions", "capture", "notify", "silences", "custom_rules", "dry_run"]
OPTIONS = [
    *("name", "parameters", "for_steps", "start_step", "end_step", "every", "grace", "resolve"),
    *("mode", "include", "exclude", "severity", "actions", "inhibits"),
]
KEYS = [
    *TOP,
    *OPTIONS,
    *(
        "rule",
        "group_wait",
        "repeat_interval",
        "send_resolved",
        "summary",
        "until",
        "job",
        "author",
    ),
    *("reason", "save_interval", "collections", "threshold", "num_steps", "tensor_regex", "ratio"),
    *("collection_names", "other_trials", "include_regex", "reductions", "rule_to_invoke"),
]


def value(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth > DEEPEST or kind < 0.5:
        return chance.choice(VALUES)
    if kind < 0.7:
        return [value(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    keys = [chance.choice(KEYS) for _ in range(chance.randint(0, 5))]
    return {key: value(chance, depth + 1) for key in keys}


def rule(chance: random.Random) -> dict[str, Any]:
    names = [*rule_names("recommended"), "SimilarAcrossRuns", "Custom", "os:system", "../x"]
    options = {key: value(chance, 2) for key in chance.sample(OPTIONS, 3)}
    return {"rule": chance.choice(names), **options}


def document(chance: random.Random) -> Any:
    if chance.random() < 0.2:  # as in a SageMaker job
        parameters = {"rule_to_invoke": rule(chance)["rule"], chance.choice(KEYS): value(chance, 3)}
        named = {"RuleConfigurationName": value(chance, 3), "RuleParameters": parameters}
        return [{**named, "RuleEvaluatorImage": "x"}] * 2
    content = {key: value(chance, 1) for key in chance.sample(TOP, 3)}
    return {**content, "rules": [rule(chance) for _ in range(3)]}


@pytest.mark.parametrize("seed", range(4))
def test_a_runs_own_watch_file_may_hold_anything(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    room = Room(tmp_path, {"rules": ["VanishingGradient"]}, now=START + 100)
    for number in range(FILES):
        job = room.job(f"jobs/j{number}")
        content = document(chance)
        job.watch(content)
        job.steps(2)
        assert room.tried(job) == "", content
        assert room.known(job).steps == 2
