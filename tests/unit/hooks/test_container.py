from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tocsin.watch import BadWatch, Capture, CollectionConfig
from tocsin_hooks.container import container, switched_off


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "debughookconfig.json"
    monkeypatch.setenv("SMDEBUG_CONFIG_FILE_PATH", str(path))
    return path


def test_outside_of_a_container_there_is_none(file: Path) -> None:
    assert container() is None


def test_what_the_platform_writes(file: Path) -> None:
    content = {
        "S3OutputPath": "s3://bucket/jobs/",
        "LocalPath": "/opt/ml/elsewhere",
        "HookParameters": {"save_interval": "100", "include_workers": "all"},
        "CollectionConfigurations": [
            {
                "CollectionName": "gradients",
                "CollectionParameters": {"reductions": "mean,l2", "save_raw_tensor": "True"},
            }
        ],
    }
    file.write_text(json.dumps(content))
    found = container()
    assert found is not None
    assert found.path == "/opt/ml/elsewhere"
    assert found.capture == Capture(
        save_interval=100,
        include_workers="all",
        collections={"gradients": CollectionConfig(reductions="mean,l2", save_raw_tensor=True)},
    )


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"LocalPath": None, "HookParameters": None, "CollectionConfigurations": None},
        {"LocalPath": "", "HookParameters": {}, "CollectionConfigurations": []},
    ],
)
def test_what_it_does_not_say_is_as_documented(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content))
    found = container()
    assert found is not None
    assert found.path == "/opt/ml/output/tensors"
    assert found.capture == Capture(save_interval=500, include_workers="one")
    xgboosts = container(save_interval=10)
    assert xgboosts is not None
    assert xgboosts.capture.save_interval == 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b"[" * 100_000, "Expected `object`"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"\xff", "invalid"),
        (b" " * (1 << 20) + b"{}", "larger than 1048576 bytes"),
        (b'{"LocalPath": 3}', "got `int` - at `$.LocalPath`"),
        (b'{"HookParameters": "x"}', "at `$.HookParameters`"),
        (b'{"HookParameters": {"end_step": "x"}}', "at `HookParameters.end_step`"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(BadWatch) as caught:
        container()
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("variables", "off"),
    [
        ({}, False),
        ({"TOCSIN": "0"}, True),
        ({"TOCSIN": "false"}, True),
        ({"TOCSIN": "1"}, False),
        ({"TOCSIN": ""}, False),
        ({"USE_SMDEBUG": "0"}, True),
        ({"USE_SMDEBUG": "False"}, True),
        ({"USE_SMDEBUG": "1", "TOCSIN": "0"}, True),
        ({"USE_SMDEBUG": "true"}, False),
    ],
)
def test_switches(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], off: bool) -> None:
    for name in ("TOCSIN", "USE_SMDEBUG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert switched_off() is off
