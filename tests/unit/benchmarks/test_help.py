from __future__ import annotations

import sys
from types import ModuleType

import pytest

from benchmarks import loops, machine
from benchmarks.__main__ import HERE, main


def test_help_lists_the_benchmarks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()
    lines = capsys.readouterr().out.splitlines()
    for path in HERE.glob("[a-z]*.py"):
        assert any(line.strip().startswith(f"{path.stem} ") for line in lines), path.stem


def test_an_unknown_name_says_which_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "hoks"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "no benchmark 'hoks': there are cold_start, " in capsys.readouterr().err


@pytest.mark.parametrize("module", [loops, machine])
def test_a_benchmark_that_is_asked_for_help_does_not_run(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module.__name__, "--help"])
    with pytest.raises(SystemExit, match="0"):
        module.main()
    assert f"usage: python -m {module.__name__}" in capsys.readouterr().out
