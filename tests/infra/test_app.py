"""The app as the CDK's command line runs it: a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_app(folder: Path, context: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "rules_layer"), str(ROOT / "infra")]),
        "CDK_OUTDIR": str(folder / "out"),
        "CDK_CONTEXT_JSON": json.dumps({"aws:cdk:bundling-stacks": [], **context}),
    }
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_synthesises_without_an_account_or_credentials(tmp_path: Path) -> None:
    done = run_app(tmp_path, {})
    assert done.returncode == 0, done.stderr
    template = json.loads((tmp_path / "out" / "Tocsin.template.json").read_text())
    assert "CaptureBucketName" in template["Outputs"]


def test_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    done = run_app(tmp_path, {"retainDays": "soon"})
    assert done.returncode == 1
    assert "tocsin: option retainDays is 'soon', but must be" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_app_is_short() -> None:
    assert len((ROOT / "app.py").read_text().splitlines()) <= 25
