"""Statuses of rules in the trackers; the real ones are in tests/frameworks."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from tocsin.judge.mirror import Mirror, in_words, mirror_of

from tests.unit.alerts.world import alert


class Run:
    """A run as the API of W&B gives it."""

    def __init__(self) -> None:
        self.tags: list[str] = ["mine"]
        self.summary: dict[str, str] = {}
        self.updates = 0

    def update(self) -> None:
        self.updates += 1


def test_wandb_has_a_tag_while_a_rule_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    run, paths = Run(), []

    def found(path: str) -> Run:
        paths.append(path)
        return run

    api = SimpleNamespace(Api=lambda: SimpleNamespace(run=found))
    monkeypatch.setitem(sys.modules, "wandb", api)  # an adapter to a service
    for name, value in (("ENTITY", "team"), ("PROJECT", "p"), ("RUN_ID", "r1")):
        monkeypatch.setenv(f"WANDB_{name}", value)
    mirror = Mirror(mirror_of("wandb"), print)
    mirror.publish([alert("LossDiverging", Severity="warning", Step=7, StatusDetails="up")])
    assert (paths, run.tags) == (["team/p/r1"], ["mine", "tocsin: LossDiverging"])
    assert run.summary == {"tocsin/LossDiverging": "IssuesFound (warning) at step 7: up"}
    mirror.publish([alert("LossDiverging", firing=False, Step=9)])
    assert (run.tags, run.updates) == (["mine"], 2)


def test_a_tracker_that_fails_is_named_and_the_next_change_is_written() -> None:
    said: list[str] = []
    written: list[str] = []

    def write(change: Any, text: str) -> None:
        if not said:
            raise ConnectionError("no answer")
        written.append(change.rule_configuration_name)

    Mirror(write, said.append).publish([alert("A"), alert("B")])
    assert (said, written) == (
        ["--mirror: A is not written: ConnectionError: no answer"],
        ["B"],
    )


def test_a_status_in_words() -> None:
    firing = alert("A", Severity="critical", Step=7, StatusDetails="loss\nis nan")
    assert in_words(firing) == "IssuesFound (critical) at step 7: loss is nan"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("neptune", "--mirror neptune: write wandb"),
        ("tensorboard", "--mirror tensorboard: write wandb"),
        ("mlflow", "set MLFLOW_RUN_ID"),
        ("wandb", "wandb=ENTITY/PROJECT/RUN"),
    ],
)
def test_what_is_no_mirror(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    for name in ("MLFLOW_RUN_ID", "WANDB_ENTITY", "WANDB_PROJECT", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=message):
        mirror_of(text)
