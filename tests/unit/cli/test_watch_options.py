"""``--watch``, ``--rule`` and ``--profile``."""

from __future__ import annotations

import pytest
from tocsin.cli.errors import CommandError
from tocsin.cli.watch_options import given_watch, rule_option
from tocsin.rules import BadRule, rule_names
from tocsin.tensors import LocalStorage
from tocsin.watch import RuleConfig


@pytest.mark.parametrize(
    ("option", "config", "parameters"),
    [
        ("ExplodingTensor", {}, {}),
        ("ExplodingTensor:", {}, {}),
        ("VanishingGradient:threshold=1e-6", {}, {"threshold": "1e-6"}),
        (
            "VanishingGradient: threshold = 1e-6 , for_steps=1",
            {},
            {"threshold": "1e-6", "for_steps": "1"},
        ),
        ("ExplodingTensor:tensor_regex=a", {}, {"tensor_regex": ["a"]}),
        ("ExplodingTensor:tensor_regex=a,b", {}, {"tensor_regex": ["a", "b"]}),
        (
            "ExplodingTensor:tensor_regex=a,b,only_nan=true",
            {},
            {"tensor_regex": ["a", "b"], "only_nan": "true"},
        ),
        (
            "ExplodingTensor:tensor_regex=a,tensor_regex=x=y",
            {},
            {"tensor_regex": ["a", "x=y"]},
        ),
        (r"ExplodingTensor:tensor_regex=^a{1\,2}$,b", {}, {"tensor_regex": ["^a{1,2}$", "b"]}),
        (r"ExplodingTensor:tensor_regex=(?:a|\d)", {}, {"tensor_regex": [r"(?:a|\d)"]}),
        ("ExplodingTensor:name=nan,grace=30s", {"name": "nan"}, {"grace": "30s"}),
        (
            r"ExplodingTensor:include=a{1\,2},b,exclude=c",
            {"include": ["a{1,2}", "b"], "exclude": ["c"]},
            {},
        ),
        ("LossNotDecreasing:mode=EVAL", {}, {"mode": "EVAL"}),
    ],
)
def test_rule_options(option, config, parameters):
    rule = option.partition(":")[0]
    assert rule_option(option) == {"rule": rule, **config, "parameters": parameters}


@pytest.mark.parametrize("option", ["ExplodingTensor:a", "ExplodingTensor:=a", "ExplodingTensor:,"])
def test_parts_that_belong_to_no_key(option):
    with pytest.raises(CommandError, match=r"is not in the form key=value"):
        rule_option(option)


def test_a_rule_that_nobody_knows():
    with pytest.raises(BadRule, match="unknown rule 'Exploding': did you mean ExplodingTensor"):
        rule_option("Exploding:a=b")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "watch.yaml"
    path.write_text(
        "profile: sagemaker\n"
        "rules: [ExplodingTensor, {rule: VanishingGradient, name: mine, for_steps: 7}]\n"
    )
    return str(path)


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def _names(watch):
    return [rule.configuration_name for rule in watch.rules]


def test_nothing_is_left_to_the_run(storage):
    assert given_watch(None, (), None, storage) is None


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ((), ["ExplodingTensor", "mine"]),
        (("LossNotDecreasing",), ["ExplodingTensor", "mine", "LossNotDecreasing"]),
        (("VanishingGradient:name=mine",), ["ExplodingTensor", "mine"]),
        (("ExplodingTensor:only_nan=true",), ["mine", "ExplodingTensor"]),
    ],
)
def test_rules_join_those_of_the_file(file, storage, rules, names):
    watch = given_watch(file, rules, None, storage)
    assert watch.profile == "sagemaker"
    assert _names(watch) == names
    if rules == ("VanishingGradient:name=mine",):
        assert watch.rules[1] == RuleConfig("VanishingGradient", "mine")


def test_rules_alone(storage):
    watch = given_watch(None, ("ExplodingTensor",), "sagemaker", storage)
    assert (_names(watch), watch.profile) == (["ExplodingTensor"], "sagemaker")


def test_a_file_that_names_no_rule_means_all(tmp_path, storage):
    path = tmp_path / "all.json"
    path.write_text("{}")
    watch = given_watch(str(path), ("ExplodingTensor:only_nan=true",), None, storage)
    assert sorted(_names(watch)) == sorted(rule_names("recommended"))


def test_the_profile_goes_before_the_files_and_the_runs(file, storage):
    assert given_watch(file, (), "recommended", storage).profile == "recommended"
    storage.write("watch.json", b'{"rules": ["ExplodingTensor"], "profile": "sagemaker"}')
    watch = given_watch(None, (), "recommended", storage)
    assert (_names(watch), watch.profile) == (["ExplodingTensor"], "recommended")
    storage.write("watch.json", b"{}")
    assert given_watch(None, (), "sagemaker", storage).rules is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("rules: [Nobody, Nobody2]", r"watch.yaml: unknown rule 'Nobody'.* \(and 1 more\)$"),
        ("rules: [{rule: ExplodingTensor, parameters: {a: 1}}]", "unknown parameter 'a'"),
        ("rules: [{rule: ExplodingTensor, every: 0}]", "every is 0"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, storage, content, problem):
    path = tmp_path / "watch.yaml"
    path.write_text(content)
    with pytest.raises(CommandError, match=problem):
        given_watch(str(path), (), None, storage)
