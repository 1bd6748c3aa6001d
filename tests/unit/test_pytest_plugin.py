"""The plugin of pytest in a pytest of its own, and ``assert_healthy``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import tomllib
from tocsin.model import Mode
from tocsin.tensors import Captured, LocalStorage, RunWriter
from tocsin.testing import assert_healthy

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]


def write(folder: Path, *losses: float) -> Path:
    writer = RunWriter(LocalStorage(folder), run_id="r1")
    for step, loss in enumerate(losses):
        tensor = Captured("loss", np.float32(loss), role="loss")
        writer.write(step, Mode.TRAIN, step, [tensor])
    writer.close()
    return folder


def test_the_fixture_in_a_pytest_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    write(pytester.path / "good", 3.0, 2.0, 1.0)
    write(pytester.path / "bad", 3.0, float("nan"))
    pytester.makepyfile(
        """
        import sys

        def test_nothing_heavy_is_loaded():
            assert not {"numpy", "msgspec", "boto3", "tocsin.testing"} & set(sys.modules)

        def test_good(assert_healthy):
            assert_healthy("good", rules=["ExplodingTensor"])

        def test_bad(assert_healthy):
            assert_healthy("bad", rules=["ExplodingTensor"])
        """
    )
    done = pytester.runpytest_subprocess("-p", "tocsin.pytest_plugin")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(
        ["*bad is not healthy: 1 rule", "*ExplodingTensor (critical, step 1):*"]
    )


def test_the_entry_point_is_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module = import_module(project["entry-points"]["pytest11"]["tocsin"])
    assert hasattr(module, "assert_healthy")


@pytest.mark.parametrize(
    ("options", "healthy"),
    [
        ({"rules": ["ExplodingTensor"]}, False),
        ({"rules": ["ExplodingTensor"], "fail_on": "critical"}, False),
        ({"rules": [{"rule": "ExplodingTensor", "severity": "warning"}]}, False),
        (
            {"rules": [{"rule": "ExplodingTensor", "severity": "info"}], "fail_on": "warning"},
            True,
        ),
        ({"watch": {"rules": [{"rule": "ExplodingTensor", "start_step": 9}]}}, False),
        ({"rules": ["VanishingGradient"]}, False),
    ],
    ids=["fires", "severe", "warning", "info only", "no step judged", "nothing captured"],
)
def test_what_fails(tmp_path: Path, options: dict[str, object], healthy: bool) -> None:
    run = write(tmp_path / "run", 1.0, float("nan"))
    if healthy:
        assert_healthy(run, **options)
        return
    with pytest.raises(AssertionError, match=r"not healthy|no rule could judge"):
        assert_healthy(run, **options)


def test_a_watch_file_and_a_history(tmp_path: Path) -> None:
    history, watch = tmp_path / "metrics.csv", tmp_path / "watch.yaml"
    history.write_text("step,cost\n0,1\n1,nan\n")
    watch.write_text("rules: [ExplodingTensor]\n")
    with pytest.raises(AssertionError, match="cost"):
        assert_healthy(history, watch=watch, losses=["cost"])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"rules": ["NoSuchRule"]}, "NoSuchRule"),
        ({"rules": ["ExplodingTensor"], "watch": {}}, "either watch or rules"),
        ({"fail_on": "fatal"}, "fatal"),
    ],
)
def test_a_wrong_argument_is_no_finding(
    tmp_path: Path, options: dict[str, object], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        assert_healthy(write(tmp_path / "run", 1.0), **options)


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such run"):
        assert_healthy(tmp_path / "nothing")
