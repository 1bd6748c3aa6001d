"""The command line as a process: a pipe that is closed, a terminal without UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def _tocsin(*arguments: object, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tocsin", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("arguments", [["--help"], ["rules", "--json"]])
def test_a_reader_that_goes_away(arguments):
    process = _tocsin(*arguments)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_a_terminal_without_utf_8(ill):
    out, err = _tocsin("check", ill, LC_ALL="C", PYTHONIOENCODING="ascii").communicate()
    assert err == b""
    assert b"steps    6 (0 ... 50)\n" in out
    assert b" clean | " in out
    assert b"\\u" not in out


@pytest.mark.parametrize("command", [[], ["check"], ["silence"], ["silence", "add"], ["local"]])
def test_help_is_short_to_type(tocsin, command):
    assert tocsin(*command, "-h") == tocsin(*command, "--help")
    assert tocsin(*command, "-h").code == 0
