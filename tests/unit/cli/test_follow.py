"""``tocsin check --follow`` and ``--now``: a training is judged while it writes its run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tocsin.cli.following import following_of
from tocsin.judge import Following, following
from tocsin.judge.command import StopCommand
from tocsin.model import Mode
from tocsin.tensors import (
    END_MARKER,
    STOP,
    Captured,
    Collection,
    LocalStorage,
    RunWriter,
    SavedCheckpoint,
)
from tocsin.watch import to_watch

from tests.waiting import PATIENCE

SCRIPT = Path(__file__).parents[3] / "examples" / "digits_numpy.py"
STOPS = {"rules": [{"rule": "ExplodingTensor", "actions": ["stop"]}]}


class Training:
    """Writes a step at each wait of the command; the loss is NaN from ``bad`` on.

    checkpoints: the path of the one that is saved after a step.
    """

    def __init__(
        self, path: Path, steps: int, bad: int, checkpoints: Mapping[int, str] | None = None
    ) -> None:
        self.checkpoints = checkpoints or {}
        self.storage = LocalStorage(path)
        self.writer = RunWriter(self.storage, run_id="r1")
        self.steps, self.bad, self.step = steps, bad, 0
        self.saved: SavedCheckpoint | None = None

    def __call__(self, seconds: float) -> None:
        if self.step == 0:
            self.writer.write_collections([Collection("losses", include_regex=("^loss$",))])
        if self.step == self.steps:
            self.storage.write(END_MARKER, b"")
            return
        loss = np.float32(np.nan if self.step >= self.bad else 1.0)
        captured = [Captured("loss", loss)]
        self.writer.write(self.step, Mode.TRAIN, self.step, captured, self.saved)
        if self.step in self.checkpoints:
            self.saved = SavedCheckpoint(self.step, self.checkpoints[self.step])
        self.step += 1


@pytest.mark.parametrize(
    ("more", "stops"),
    [
        ({}, True),
        ({"dry_run": True}, False),
        ({"silences": [{"until": "2099-01-01T00:00:00Z", "job": "*"}]}, False),
        ({"rules": ["ExplodingTensor"]}, False),
    ],
)
def test_a_rule_with_a_stop_stops(tmp_path, capsys, more, stops):
    training = Training(tmp_path / "run", steps=6, bad=3)
    following = following_of(training.storage, to_watch({**STOPS, **more}))
    following.until_end(training)
    (rule,) = following.document["rules"]
    assert (rule["RuleEvaluationStatus"], rule["FiredAt"]["step"]) == ("IssuesFound", 3)
    assert following.document["finished"]
    said = capsys.readouterr().err
    assert "waiting for the first step" in said
    assert "step 3: ExplodingTensor: loss is NaN" in said
    assert ("STOP.json" in said) == stops
    path = tmp_path / "run" / STOP
    assert path.exists() == stops
    if stops:
        request = json.loads(path.read_bytes())
        assert list(request) == ["requested_at", "rule", "reason", "step", "run_id"]
        assert (request["rule"], request["step"], request["run_id"]) == ("ExplodingTensor", 3, "r1")


@pytest.mark.parametrize(("more", "runs"), [({}, 1), ({"dry_run": True}, 0)])
def test_a_command_runs_once_where_a_rule_stops(tmp_path, capsys, more, runs):
    training = Training(tmp_path / "run", steps=8, bad=3)
    command = f'echo "$TOCSIN_RULE" >> {tmp_path}/out; test -s {tmp_path}/run/STOP.json'
    rules = [*STOPS["rules"], {"rule": "LossNotDecreasing", "actions": ["stop"]}]
    watch = to_watch({"rules": rules, **more})
    following_of(training.storage, watch, on_stop=command).until_end(training)
    out = tmp_path / "out"
    assert (out.read_text().splitlines() if out.exists() else []) == ["ExplodingTensor"] * runs
    assert capsys.readouterr().err.count("ExplodingTensor: ran echo") == runs


def test_a_command_that_fails_is_named_and_runs_again(tmp_path):
    said = []
    stop = StopCommand("echo no such job; exit 3", "runs/a", said.append)
    stop("LossDiverging")
    stop("$(touch evil)")
    assert len(said) == 2
    assert said[0].startswith("--on-stop failed: exit code 3: no such job. It runs again")
    slow = StopCommand("exec sleep 60", "runs/a", said.append, seconds=0.1)
    slow("LossDiverging")
    assert "timed out" in said[-1]


@pytest.mark.parametrize(
    "path", ["/saved/step 4.pt", "/saved/$(touch evil)", "/saved/a; touch evil", "'\"", "*"]
)
def test_the_checkpoint_is_one_argument_whatever_it_is_called(tmp_path, path):
    out, said = tmp_path / "out", []
    write = f"import sys; open({str(out)!r}, 'w').write(repr(sys.argv[1:]))"
    stop = StopCommand(
        f'cd {tmp_path} && python3 -c "{write}" {{checkpoint}} next', "r", said.append
    )
    stop("LossDiverging", path)
    assert out.read_text() == repr([path, "next"])
    assert stop.done
    assert [found.name for found in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("quote", ["'", '"'])
def test_quotes_around_the_placeholder_run_nothing_of_the_path(tmp_path, quote):
    stop = StopCommand(f"cd {tmp_path}; echo {quote}{{checkpoint}}{quote}", "r", lambda line: None)
    stop("LossDiverging", "'; touch evil; $(touch evil) \"; touch evil; '")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [None, "", "--output=evil"])
def test_without_a_checkpoint_the_command_does_not_run(tmp_path, path):
    said = []
    stop = StopCommand(f"touch {tmp_path}/ran {{checkpoint}}", "runs/a", said.append)
    stop("LossDiverging", path)
    assert list(tmp_path.iterdir()) == []
    (line,) = said
    assert line.startswith("--on-stop failed: no model checkpoint before the first sign")
    stop("LossDiverging", f"{tmp_path}/saved")
    assert {found.name for found in tmp_path.iterdir()} == {"ran", "saved"}


def test_the_last_checkpoint_before_the_fault_reaches_the_command(tmp_path):
    training = Training(tmp_path / "run", steps=8, bad=5, checkpoints={2: "two", 6: "six"})
    command = f"echo {{checkpoint}} > {tmp_path}/out"
    following_of(training.storage, to_watch(STOPS), on_stop=command).until_end(training)
    assert (tmp_path / "out").read_text() == "two\n"


def test_what_follows_is_what_check_finds(tocsin, ill):
    said = tocsin("check", ill, "--follow", "--json")
    checked = tocsin("check", ill, "--json")
    assert (said.code, said.json) == (checked.code, checked.json)


def test_a_training_that_begins_again(tmp_path):
    first = Training(tmp_path / "run", steps=6, bad=3)
    following = Following(first.storage, to_watch({"rules": ["ExplodingTensor"]}))
    for _ in range(5):
        first(0)
        following.look()
    (rule,) = following.document["rules"]
    assert rule["RuleEvaluationStatus"] == "IssuesFound"
    second = Training(tmp_path / "run", steps=4, bad=99)
    second.writer = RunWriter(second.storage, run_id="r2")
    following.until_end(second)
    (rule,) = following.document["rules"]
    assert rule["RuleEvaluationStatus"] == "NoIssuesFound"


def test_a_training_that_resumes(tmp_path):
    first = Training(tmp_path / "run", steps=99, bad=3)
    following = Following(first.storage, to_watch({"rules": ["ExplodingTensor"]}))
    for _ in range(6):
        first(0)
        following.look()
    (rule,) = following.document["rules"]
    assert (rule["RuleEvaluationStatus"], rule["Violations"]) == ("IssuesFound", 3)
    second = Training(tmp_path / "run", steps=8, bad=99)
    second.writer = RunWriter(second.storage, run_id="r2", resumed_from=2)
    second.step = 3
    following.until_end(second)
    (rule,) = following.document["rules"]
    assert (rule["RuleEvaluationStatus"], rule["Violations"]) == ("NoIssuesFound", 0)


def test_an_interrupt_shows_what_was_found(tocsin, tmp_path, monkeypatch):
    training = Training(tmp_path / "run", steps=6, bad=0)
    for _ in range(3):
        training(0)

    def interrupted(self):
        self.look()
        raise KeyboardInterrupt

    monkeypatch.setattr(Following, "until_end", interrupted)
    said = tocsin("check", tmp_path / "run", "--follow")
    assert said.code == 130
    assert "ExplodingTensor" in said.out
    assert not (tmp_path / "run" / STOP).exists()


def test_now_finds_a_run_that_has_stalled(tocsin, tmp_path):
    training = Training(tmp_path / "run", steps=9, bad=9)
    for _ in range(9):
        training(0)
    hours_ago = time.time() - 5 * 3600
    for file in (tmp_path / "run").rglob("*"):
        os.utime(file, (hours_ago, hours_ago))
    rule = ["--rule", "StalledTrainingRule"]
    assert tocsin("check", tmp_path / "run", *rule).code == 0
    assert tocsin("check", tmp_path / "run", *rule, "--now").code == 1


@pytest.mark.parametrize(("fail_on", "code"), [("info", 1), ("warning", 1), ("critical", 0)])
def test_the_severity_that_fails(tocsin, ill, fail_on, code):
    given = ["--rule", "VanishingGradient", "--fail-on", fail_on]
    assert tocsin("check", ill, *given).code == code


def test_a_real_training_is_stopped(tocsin, tmp_path, monkeypatch):
    monkeypatch.setattr(following, "PAUSE", 0.05)
    run, watch = tmp_path / "run", tmp_path / "watch.json"
    watch.write_text(json.dumps({**STOPS, "capture": {"max_overhead": 1}}))
    arguments = ["--fault", "diverging", "--save-interval", "1", "--poll-interval", "0.05"]
    planned = ["--steps", "100000", "--seconds-per-step", "0.01"]
    training = subprocess.Popen(
        [
            sys.executable,
            str(SCRIPT),
            "--out",
            str(run),
            "--watch",
            str(watch),
            *arguments,
            *planned,
        ],
        env={name: value for name, value in os.environ.items() if name != "TRAINING_JOB_NAME"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said = tocsin("check", run, "--follow", "--watch", watch, "--json")
        output, _ = training.communicate(timeout=PATIENCE)
    finally:
        training.kill()
    assert said.code == 1
    assert said.json["finished"]
    assert training.returncode == 0
    assert "stop requested after step" in output
    assert "STOP.json" in said.err


def test_actions_that_are_not_taken_are_named_once(tocsin, ill, tmp_path):
    watch = tmp_path / "watch.yaml"
    watch.write_text("rules:\n  - {rule: LossSpike, actions: [stop, email, 'webhook:ops']}\n")
    said = tocsin("check", ill, "--follow", "--watch", watch)
    assert (
        said.err.count("actions not taken without a deployment: email, webhook:ops; stop works")
        == 1
    )
    assert "actions not taken" not in tocsin("check", ill, "--follow").err
    (ill / "watch.json").write_text('{"actions": ["webhook:ops"]}')
    assert "without a deployment: webhook:ops; " in tocsin("check", ill, "--follow").err
