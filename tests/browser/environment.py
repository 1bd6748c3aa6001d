"""The environment of the browser tests: Playwright, which drives a Chromium of the machine."""

from __future__ import annotations

from pathlib import Path

from local.interpreter import interpreter

HERE = Path(__file__).parent

if __name__ == "__main__":  # what the Makefile asks
    print(interpreter(HERE.parents[1] / ".venv-browser", HERE / "requirements.txt"))
