"""``tocsin rules``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import pytest
from tocsin.cli.rules import rule_document
from tocsin.rules import OPTION_MEANINGS as OPTIONS
from tocsin.rules import OPTIONS as ENGINE
from tocsin.rules import PROFILES, Rule, _registry, register, rule_names
from tocsin.watch import Options

KEYS = ["name", "about", "summary", "description", "parameters", "options", "reads"]
KEYS += ["profiles", "causes", "advice", "advice_for_trees"]


def test_all_of_them(tocsin):
    said = tocsin("rules", "--json")
    assert [rule["name"] for rule in said.json["rules"]] == list(rule_names())
    summaries = {rule["name"]: rule["summary"] for rule in said.json["rules"]}
    assert summaries["LossNotDecreasing"] == "The loss does not fall as it should."
    people = tocsin("rules")
    for name, summary in summaries.items():
        assert name in people.out
        assert summary.split()[-1] in people.out


@pytest.mark.parametrize("name", rule_names())
def test_each_tells_all(tocsin, name):
    said = tocsin("rules", name, "--json")
    document = said.json
    assert (said.code, list(document)) == (0, KEYS)
    assert document["summary"] == document["description"].splitlines()[0]
    assert "Parameters\n---" not in document["description"]
    named = {"tensor_regex", "collection_names"} & {row["name"] for row in document["parameters"]}
    assert document["reads"]["tensors"] or named
    for parameter in document["parameters"]:
        assert list(parameter) == ["name", "type", "defaults", "meaning"]
        assert parameter["meaning"], f"{name}: the docstring does not explain {parameter['name']}"
        assert list(parameter["defaults"]) == list(PROFILES)
    people = tocsin("rules", name)
    assert people.code == 0
    for parameter in document["parameters"]:
        assert parameter["name"] in people.out


def test_defaults_of_a_profile(tocsin):
    document = tocsin("rules", "LossNotDecreasing", "--json").json
    parameters = {row["name"]: row for row in document["parameters"]}
    assert parameters["num_steps"]["defaults"] == {"recommended": 100, "sagemaker": 10}
    assert parameters["num_steps"]["type"] == "integer"
    assert parameters["settled_percent"]["type"] == "number or none"
    assert parameters["tensor_regex"]["type"] == "list of text"
    options = {row["name"]: row["defaults"] for row in document["options"]}
    assert options["for_steps"] == {"recommended": 2, "sagemaker": 1}
    assert options["mode"] == {"recommended": None, "sagemaker": None}
    assert document["reads"]["tensors"][0]["roles"] == ["loss"]


def test_options_are_the_engines():
    assert tuple(OPTIONS) == ENGINE
    defaults = {field.name: field.default for field in fields(Options)}
    defaults["grace"] = defaults.pop("grace_steps")
    assert {key: default for key, (default, _) in OPTIONS.items()} == {
        key: defaults[key] for key in OPTIONS
    }


@pytest.fixture
def foreign(monkeypatch):
    """A rule that somebody else wrote, in a manner of his own."""
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))

    @register
    @dataclass(frozen=True)
    class Foreign(Rule):
        """Something [bold]else.

        Parameters
        ----------
        limit : float
            How much,
            at most.
        kind, other: which
          of them.
        """

        limit: float = float("inf")
        kind: Literal["a", "b"] = "a"
        other: str | None = None
        unexplained: bool = False

        def reads(self):
            raise NotImplementedError

        def evaluate(self, state, step):
            raise NotImplementedError

    return Foreign


def test_docstrings_of_others(tocsin, foreign, monkeypatch):
    from tocsin.rules import Read, Reads

    reads = Reads({"all": Read(values=True, back=2, kinds=("relu",))}, ticks=True)
    monkeypatch.setattr(foreign, "reads", lambda self: reads)
    rows = {row["name"]: row for row in rule_document("Foreign")["parameters"]}
    assert rows["limit"]["meaning"] == "float How much, at most."
    assert rows["kind"]["meaning"] == rows["other"]["meaning"] == "which of them."
    assert (rows["kind"]["type"], rows["other"]["type"]) == ("a or b", "text or none")
    assert rows["unexplained"]["meaning"] == ""
    document = tocsin("rules", "Foreign", "--json").json
    assert document["parameters"][0]["defaults"]["recommended"] == "Infinity"
    people = tocsin("rules", "Foreign").out
    assert "Something [bold]else." in people
    assert "any tensor of kind relu: values, and the previous 2 saves" in people
    assert "the passing of time" in people


def test_installed_rules_that_cannot_be_loaded(tocsin, monkeypatch):
    def broken():
        raise ImportError("no such thing")

    monkeypatch.setattr("tocsin.cli.rules.load_installed", broken)
    assert "cannot be loaded: ImportError: no such thing" in tocsin("rules").complaint


def test_a_search(tocsin):
    found = [rule["name"] for rule in tocsin("rules", "--search", "NaN", "--json").json["rules"]]
    assert found[0] == "ExplodingTensor"
    assert "NonFiniteData" in found  # its description says so
    assert "VanishingGradient" not in found
    assert "no rule has these words" in tocsin("rules", "--search", "zebra quagga").out
    assert (
        tocsin("rules", "LossSpike", "--search", "x").complaint == "NAME and --search: choose one"
    )


def test_an_item_of_a_list_has_a_line(tocsin):
    lines = tocsin("rules", "LossDiverging").out.splitlines()
    assert "* The last three saves are not finite." in lines
