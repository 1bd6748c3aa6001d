"""A pytest plugin: it writes down which tests have failed, and makes sure of what they imported.

The environment has an editable install of the checkout. A test that imports the checkout says
nothing about the fault that was put into a copy of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FAILED = "failed.json"
"""Beside the tree: the ids of the tests that have failed. Files that failed to load have none."""

FOREIGN = 90
"""The exit status of a session that has imported code from outside its tree."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    beside = session.config.rootpath.parent
    (beside / FAILED).write_text(json.dumps(list(_failed(session.config))))
    # Temporary files lie beside the tree as well, and tests write modules of their own there.
    allowed = (beside, Path(sys.prefix), Path(sys.base_prefix))
    files = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
    foreign = sorted(
        file for file in files if file and not any(map(Path(file).is_relative_to, allowed))
    )
    if foreign:
        what = f"{len(foreign)} files were imported from outside the tree, such as {foreign[0]}"
        pytest.exit(what, returncode=FOREIGN)


def _failed(config: pytest.Config) -> Iterator[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    for outcome in ("failed", "error"):
        for report in reporter.stats.get(outcome, ()) if reporter else ():
            if report.when != "collect":
                yield report.nodeid
