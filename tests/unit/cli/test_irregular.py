"""Paths that are no regular files: the command says so, and ends.

What each of a run's files comes to is in ``tests/unit/evaluation/test_irregular.py``.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tocsin.tensors import END_MARKER, collections_key, event_key, index_key

from tests.irregular import in_time
from tests.unit.cli.conftest import Command

FILES = (
    index_key(20, "worker_0"),
    collections_key("worker_0"),
    END_MARKER,
    "watch.json",
    event_key(20, "worker_0"),
)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (FILES[0], f"refused {FILES[0]}: "),
        (FILES[1], "refused collections/: "),
        (FILES[2], f"refused {FILES[2]}: "),
        (FILES[3], "refused watch.json: "),
        (FILES[4], "unreadable: step 20, worker_0, loss: "),
        ("STOP.json", None),  # the training's to read
    ],
)
def test_check_of_a_run_with_a_pipe(ill: Path, tocsin: Command, key: str, said: str | None) -> None:
    (ill / key).unlink(missing_ok=True)
    os.mkfifo(ill / key)
    done = in_time(lambda: tocsin("check", ill))
    assert done.code == 1
    assert "IssuesFound" in done.out
    lines = done.err.splitlines()
    if said is None:
        assert lines == []
    else:
        why = f"{key} of run {ill} is a named pipe, not a file: remove it"
        assert f"tocsin: {ill}: {said}{why}" in lines


def test_tensors_of_a_run_with_pipes(ill: Path, tocsin: Command) -> None:
    for key in (*FILES, "STOP.json"):
        (ill / key).unlink(missing_ok=True)
        os.mkfifo(ill / key)
    said = in_time(lambda: tocsin("tensors", ill, "--digest", "--json"))
    assert (said.code, said.err) == (0, "")
    assert said.out.count("is a named pipe, not a file: remove it") == 3
    shutil.rmtree(ill / "index")
    os.mkfifo(ill / "index")
    said = in_time(lambda: tocsin("tensors", ill, "--json"))
    assert (said.code, said.err) == (0, "")


@pytest.mark.parametrize("arguments", [["check", "{run}", "--watch"], ["lint"]])
def test_a_watch_file_that_is_a_pipe(ill: Path, tocsin: Command, arguments: list[str]) -> None:
    os.mkfifo(ill / "watch.json")
    line = [item.format(run=ill) for item in arguments]
    assert in_time(lambda: tocsin(*line, ill / "watch.json")).complaint == (
        f"{ill}/watch.json: a named pipe, not a file: give a file, or /dev/stdin"
    )


def test_a_watch_file_that_a_user_pipes_in(ill: Path) -> None:
    script = Path(sys.executable).with_name("tocsin")
    rules = shlex.quote('{"rules": [{"rule": "ExplodingTensor", "name": "mine"}]}')
    done = subprocess.run(
        ["bash", "-c", f"{script} check {ill} --watch <(echo {rules})"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "mine" in done.stdout
    assert "VanishingGradient" not in done.stdout
