from __future__ import annotations

import sys
from pathlib import Path

import pytest

from local import interpreter as module
from local.error import LocalError
from local.interpreter import REQUIREMENTS, interpreter


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str | Path, ...]]:
    """What would be run; making the environment puts an interpreter there."""
    ran: list[tuple[str | Path, ...]] = []

    def run(*command: str | Path) -> None:
        ran.append(command)
        if "venv" in command:
            (tmp_path / "venv" / "bin").mkdir(parents=True, exist_ok=True)
            (tmp_path / "venv" / "bin" / "python").touch()

    monkeypatch.setattr(module, "_run", run)
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    return ran


def test_it_is_installed_once(commands: list[tuple[str | Path, ...]], tmp_path: Path) -> None:
    first = interpreter(tmp_path / "venv")
    assert first == tmp_path / "venv" / "bin" / "python"
    assert [command[2] for command in commands] == ["venv", "pip"]
    assert commands[1][0] == first
    assert interpreter(tmp_path / "venv") == first
    assert len(commands) == 2


@pytest.mark.parametrize("lost", ["requirements", "stamp", "python"])
def test_it_is_installed_again_when_something_changed(
    commands: list[tuple[str | Path, ...]], tmp_path: Path, lost: str
) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("ministack==1")
    interpreter(tmp_path / "venv", requirements)
    match lost:
        case "requirements":
            requirements.write_text("ministack==2")
        case "stamp":
            (tmp_path / "venv" / "installed").unlink()
        case "python":
            (tmp_path / "venv" / "bin" / "python").unlink()
    interpreter(tmp_path / "venv", requirements)
    assert len(commands) == 4


def test_a_failed_installation_says_why_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(module, "_PIP_INSTALL", ("-c", "import sys; sys.exit('no such wheel')"))
    monkeypatch.setattr(module.sys, "executable", "true")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    for _ in range(2):
        with pytest.raises(LocalError, match="cannot make a virtual environment: no such wheel"):
            interpreter(tmp_path / "venv")
    assert not (tmp_path / "venv" / "installed").exists()


def test_every_package_is_pinned_exactly() -> None:
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    assert "ministack==1.5.33" in lines
    assert "boto3==1.43.106" in lines
    assert all(line.count("==") == 1 for line in lines)
