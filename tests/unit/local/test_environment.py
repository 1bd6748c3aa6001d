from __future__ import annotations

import pytest

from local.environment import embedded, inherited


def test_nothing_of_the_users_own_aws_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "real")
    monkeypatch.setenv("KEPT", "yes")
    assert inherited()["KEPT"] == "yes"
    assert not [name for name in inherited() if name.startswith("AWS_")]


def test_the_embedded_aws_is_all_that_an_sdk_finds() -> None:
    environment = embedded("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert environment["AWS_ENDPOINT_URL_SAGEMAKER"] == "http://127.0.0.1:2"
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"} <= environment.keys()
