"""What is no regular file, as the command meets it: it says so, and ends."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tocsin.tensors import END_MARKER, collections_key, event_key, index_key

SCRIPT = Path(sys.executable).with_name("tocsin")
INDEX, EVENT = index_key(20, "worker_0"), event_key(20, "worker_0")
COLLECTIONS = collections_key("worker_0")


def command(*line: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command. The test fails if the command does not end."""
    return subprocess.run(
        list(map(str, line)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "COLUMNS": "80"},
    )


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (INDEX, f"refused {INDEX}: "),
        (COLLECTIONS, "refused collections/: "),
        (END_MARKER, f"refused {END_MARKER}: "),
        ("watch.json", "refused watch.json: "),
        (EVENT, "unreadable: step 20, worker_0, loss: "),
        ("STOP.json", None),  # the training's to read
    ],
)
def test_check_of_a_run_with_a_pipe(ill: Path, key: str, said: str | None) -> None:
    (ill / key).unlink(missing_ok=True)
    os.mkfifo(ill / key)
    done = command(SCRIPT, "check", ill)
    assert done.returncode == 1
    assert "IssuesFound" in done.stdout
    lines = done.stderr.splitlines()
    if said is None:
        assert lines == []
    else:
        why = f"{key} of run {ill} is a named pipe, not a file: remove it"
        assert f"tocsin: {ill}: {said}{why}" in lines


@pytest.mark.parametrize("key", [INDEX, COLLECTIONS, END_MARKER, "watch.json", EVENT])
@pytest.mark.parametrize("target", ["/dev/zero", "/etc/hostname"])
def test_check_of_a_run_with_a_link_that_leads_out(ill: Path, key: str, target: str) -> None:
    (ill / key).unlink(missing_ok=True)
    (ill / key).symlink_to(target)
    done = command(SCRIPT, "check", ill)
    assert done.returncode == 1
    assert "IssuesFound" in done.stdout
    assert f"{key!r} points outside of the run {ill}" in done.stderr


def test_the_other_commands_of_a_run_with_pipes(ill: Path) -> None:
    for key in (INDEX, COLLECTIONS, END_MARKER, "watch.json", EVENT):
        (ill / key).unlink(missing_ok=True)
        os.mkfifo(ill / key)
    os.mkfifo(ill / "STOP.json")
    done = command(SCRIPT, "tensors", ill, "--digest", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("is a named pipe, not a file: remove it") == 3
    shutil.rmtree(ill / "index")
    os.mkfifo(ill / "index")
    done = command(SCRIPT, "tensors", ill, "--json")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["check", "{run}", "--watch"], ["lint"]])
def test_a_watch_file_that_is_a_pipe(ill: Path, arguments: list[str]) -> None:
    os.mkfifo(ill / "watch.json")
    done = command(SCRIPT, *(item.format(run=ill) for item in arguments), ill / "watch.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"tocsin: {ill}/watch.json: a named pipe, not a file: give a file, or /dev/stdin\n"
    )


@pytest.mark.parametrize("end", ["--watch <(echo {rules})", "--watch /dev/stdin <<< {rules}"])
def test_a_watch_file_that_a_user_pipes_in(ill: Path, end: str) -> None:
    rules = shlex.quote('{"rules": [{"rule": "ExplodingTensor", "name": "mine"}]}')
    done = command("bash", "-c", f"{SCRIPT} check {ill} {end.format(rules=rules)}")
    assert (done.returncode, done.stderr) == (1, "")
    assert "mine" in done.stdout
    assert "VanishingGradient" not in done.stdout
