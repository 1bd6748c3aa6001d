from __future__ import annotations

import pytest
from tocsin.tensors import BadPattern
from tocsin.watch import PatternMatcher


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that a slow pattern was tried at."""
    names: list[str] = []

    def slow(pattern: str, name: str, seconds: float) -> bool:
        names.append(name)
        raise BadPattern(f"{pattern} takes longer than 0.1 s")

    monkeypatch.setattr("tocsin.watch.selector.search", slow)
    return names


@pytest.mark.parametrize("tries", [1, 3])
def test_a_pattern_that_fails_again_and_again_is_given_up_and_reported_once(
    tried: list[str], tries: int
) -> None:
    reported: list[tuple[str, str]] = []
    matcher = PatternMatcher(tries, lambda owner, why: reported.append((owner, why)))
    for number in range(10):
        assert not matcher.matches(["(a+)+$"], str(number), "rule R")
        assert (len(tried) < tries) == (not matcher.bad)
    assert tried == [str(number) for number in range(tries)]
    assert reported == [("rule R", "(a+)+$ takes longer than 0.1 s")]
    assert matcher.bad == {("rule R", "(a+)+$"): "(a+)+$ takes longer than 0.1 s"}


def test_a_bad_pattern_keeps_no_other_from_matching() -> None:
    matcher = PatternMatcher()
    assert matcher.matches(["(", "^fc"], "fc.weight", "collection mine")
    assert [*matcher.bad] == [("collection mine", "(")]
