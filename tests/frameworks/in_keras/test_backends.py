"""The tests of the callback with each backend: a process has one, for Keras reads it once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.mark.parametrize("backend", ["torch", "jax", "tensorflow"])
def test_the_callback(backend):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", HERE / "callback"],
        cwd=ROOT,
        env=os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout + done.stderr


ADDED = """
import sys, keras
before = set(sys.modules)
import tocsin_hooks.keras
added = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(added & {"boto3", "google", "jax", "pydantic", "tensorflow", "torch", "yaml"}))
"""


@pytest.mark.parametrize("backend", ["torch", "jax", "tensorflow"])
def test_the_import_brings_nothing_that_keras_has_not_brought(backend):
    done = subprocess.run(
        [sys.executable, "-c", ADDED],
        cwd=ROOT,
        env=os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == ""
