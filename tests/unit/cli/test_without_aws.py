"""The local half of the command line where only the extra ``cli`` is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tocsin.installing import install

from tests.waiting import PATIENCE, becomes

OTHER_EXTRAS = ("boto3", "botocore", "pandas", "pyarrow", "altair", "aws_cdk", "constructs")
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({OTHER_EXTRAS}))\n"
COMMANDS = """
import json
from typer.testing import CliRunner
from tocsin.cli import app
said = []
for arguments in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, arguments, prog_name="tocsin")
    said.append((result.exit_code, result.stdout, result.stderr))
print(json.dumps(said))
"""
MAIN = "from tocsin.__main__ import main; main()"


def _said(*commands: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each command, all in one process."""
    arguments = [sys.executable, "-c", BLOCKED + COMMANDS, json.dumps(commands)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return json.loads(done.stdout)


def test_every_command_on_a_local_folder(ill: Path, tmp_path: Path) -> None:
    run, page = str(ill), str(tmp_path / "page.html")
    watch = tmp_path / "watch.yaml"
    watch.write_text("rules: [ExplodingTensor]\n")
    trace, job = str(tmp_path / "trace.json"), tmp_path / "job.json"
    job.write_text(json.dumps({"DebugHookConfig": {"S3OutputPath": "s3://b"}}))
    commands = (
        ("check", run),
        ("check", run, "--json", "--follow"),
        ("watch", run),
        ("watch", run, "--json"),
        ("watch", run, "--until-idle", "1s"),
        ("replay", run, "--watch", str(watch)),
        ("status", str(tmp_path)),
        ("report", run, "-o", page),
        ("tensors", run),
        ("rules",),
        ("rules", "LossSpike"),
        ("lint", str(watch)),
        ("convert", str(job)),
        ("profile", run, "--trace", trace),
        ("trace", run),
    )
    for command, (code, _, err) in zip(commands, _said(*commands), strict=True):
        assert "boto3" not in err, command
        assert "bug in Tocsin" not in err, command
        expected = {"check": 1, "watch": 1, "replay": 1, "profile": 2, "trace": 2}
        assert code == expected.get(command[0], 0), (command, err)
    assert Path(page).is_file()


def test_the_page_is_served(ill: Path) -> None:
    command = [sys.executable, "-u", "-c", BLOCKED + MAIN, "watch", str(ill), "--web"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().partition("http://")[2].split()[0]
            assert becomes(lambda: "VanishingGradient" in _fetched(f"http://{url}"))
        finally:
            process.terminate()


def _fetched(url: str) -> str:
    """The page; while it is evaluated, the one that says so."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    connection.request("GET", "/")
    return connection.getresponse().read().decode()


@pytest.mark.parametrize("command", ["replay", "status"])
def test_a_mistyped_path_is_no_missing_package(command: str) -> None:
    (path, name) = _said((command, "runs/firs"), (command, "firs"))
    missing = "no such folder; a run in S3 is s3://bucket/prefix"
    assert path == [2, "", f"tocsin: runs/firs: {missing}\n"]
    hint = f"if it is the name of a job, install boto3: {install('aws')}"
    assert name == [2, "", f"tocsin: firs: no such folder; {hint}\n"]
