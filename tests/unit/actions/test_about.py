from __future__ import annotations

import pytest
from tocsin import rules
from tocsin.actions._about import About, about


def test_gives_the_rules_own_meaning_and_advice() -> None:
    found = about("VanishingGradient")
    assert found.meaning == "Gradients of a layer have become too small to learn from."
    assert found.advice == rules.get_rule("VanishingGradient").advice


def test_a_rule_that_nobody_knows_says_nothing() -> None:
    assert about("Homemade") == About()


def test_a_broken_registry_keeps_no_email_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("somebody's rule does not import")

    monkeypatch.setattr(rules, "find_rule", broken)
    assert about("VanishingGradient") == About()
