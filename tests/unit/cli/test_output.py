"""One answer on stdout, all else on stderr."""

from __future__ import annotations

import io
import json
import sys

import pytest
from tocsin.cli.output import answer, note, notes, progress, waiting


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_json_has_no_other_numbers(capsys):
    answer({"a": [float("nan"), (float("inf"), {"b": -float("inf")})]}, print, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"a": ["NaN", ["Infinity", {"b": "-Infinity"}]]}


def test_no_trailing_spaces(capsys):
    answer({}, lambda _, console: console.print("a   \n\nb "), as_json=False)
    assert capsys.readouterr().out == "a\n\nb\n"


@pytest.mark.parametrize(("number", "shown"), [(0, 0), (20, 20), (21, 21), (100, 21)])
def test_notes_are_not_many(capsys, number, shown):
    notes(f"{at}\nx" for at in range(number))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == shown
    assert (lines[-1:] == [f"tocsin: … and {number - 20} more"]) == (number > 20)


def test_a_note_is_one_line(capsys):
    note("a\r\nb\x1b[2J")
    assert capsys.readouterr().err == "tocsin: a b\\x1b[2J\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_on_a_terminal_only(monkeypatch, capsys, terminal):
    monkeypatch.setenv("TERM", "xterm")
    stream = _Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("evaluating") as advance:
        advance(1, 7)
    with waiting("starting"):
        pass
    assert ("evaluating" in stream.getvalue()) is terminal
    assert ("7/7" in stream.getvalue() or "1/7" in stream.getvalue()) is terminal
    assert ("starting" in stream.getvalue()) is terminal
    assert capsys.readouterr().out == ""
