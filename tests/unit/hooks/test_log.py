"""Where the hooks' lines go."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE

USE = """
from tocsin_hooks.log import logger, say
say("capturing")
logger.warning("no loss in %d steps", 3)
logger.info("not shown")
"""


@pytest.mark.parametrize(
    ("configuration", "lines"),
    [
        ("", ["tocsin: capturing", "tocsin: no loss in 3 steps"]),
        ("logging.basicConfig()", ["WARNING:tocsin:no loss in 3 steps"]),
        (
            "logging.basicConfig(level=logging.INFO, format='%(message)s')",
            ["capturing", "no loss in 3 steps", "not shown"],
        ),
    ],
)
def test_a_line_has_the_prefix_unless_the_script_formats_it(
    configuration: str, lines: list[str]
) -> None:
    code = f"import logging\n{configuration}\n{USE}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stderr.splitlines() == lines
