from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.options import OptionError
from infra.watch_file import default_watch


def test_without_a_file_all_defaults_apply() -> None:
    assert json.loads(default_watch(None)) == {}


def test_yaml_becomes_json(tmp_path: Path) -> None:
    file = tmp_path / "watch.yaml"
    file.write_text("profile: sagemaker\nrules: [VanishingGradient]\n")
    watch = json.loads(default_watch(file))
    assert watch["profile"] == "sagemaker"
    assert [rule["rule"] for rule in watch["rules"]] == ["VanishingGradient"]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("watch.yaml", "rules: [", "not YAML"),
        ("watch.json", "{", "not JSON"),
        ("watch.yaml", "rulez: []", "unknown key 'rulez'"),
        ("watch.yaml", "rules: [NoSuchRule]", "NoSuchRule"),
        ("watch.yaml", "rules: [{rule: VanishingGradient, parameters: {treshold: 1}}]", "treshold"),
        ("watch.yaml", "just text", "mapping"),
    ],
)
def test_what_is_wrong_is_found_at_deployment(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(OptionError, match=rf"^option watchFile: .*{name}: .*{why}"):
        default_watch(file)


def test_rules_of_a_custom_folder_are_not_known_yet(tmp_path: Path) -> None:
    file = tmp_path / "watch.yaml"
    file.write_text("custom_rules: mine/\nrules: [MyOwnRule]\n")
    assert "MyOwnRule" in default_watch(file)
