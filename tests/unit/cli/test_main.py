"""The command as it is started: a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tocsin.installing import install

from tests.waiting import PATIENCE

SCRIPT = Path(sys.executable).with_name("tocsin")


def _run(*command, **environment):
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "COLUMNS": "80", **environment},
    )


@pytest.mark.parametrize("start", [[SCRIPT], [sys.executable, "-m", "tocsin"]])
def test_both_ways_to_start(start, ill):
    done = _run(*start, "check", ill, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["job"] == "j1"
    done = _run(*start, "check")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tocsin: Missing argument 'RUN' (try 'tocsin check --help')\n"


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from tocsin.__main__ import main; main()"
    done = _run(sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tocsin: the command line needs more: {install('cli')}\n"


def test_without_boto3():
    code = "import sys; sys.modules['boto3'] = None; from tocsin.__main__ import main; main()"
    for arguments in (("check", "s3://bucket/x"), ("status", "--state-bucket", "b")):
        done = _run(sys.executable, "-c", code, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"tocsin: this needs boto3: {install('aws')}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["--version"]])
def test_help_loads_little(arguments):
    code = (
        "import sys; from tocsin.cli import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'boto3', 'botocore', 'yaml', 'local', 'tocsin.evaluation'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = _run(sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--help"], 0), (["rules", "--json"], 0), (["check", "{run}", "--json"], 1)],
)
def test_a_reader_that_leaves_changes_no_verdict(ill, arguments, code):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(
            [SCRIPT, *(item.format(run=ill) for item in arguments)],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert (done.returncode, done.stderr) == (code, "")


def test_a_terminal_that_knows_ascii_only(ill):
    done = _run(SCRIPT, "check", ill, LC_ALL="C", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, "")
    assert "steps    6 (0 ... 50)\n" in done.stdout
    assert " clean | " in done.stdout
    assert "\\u" not in done.stdout
