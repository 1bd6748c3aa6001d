"""Rules that read the same share what is computed of it."""

from __future__ import annotations

from tocsin.rules._shared import shared


def test_the_same_objects_are_computed_once_and_equal_ones_again() -> None:
    calls = []

    @shared
    def total(numbers: tuple[int, ...], *, factor: int = 1) -> int:
        calls.append(numbers)
        return factor * sum(numbers)

    some, equal = (tuple(each) for each in ([1, 2], [1, 2]))
    assert [total(some), total(some), total(some, factor=3), total(equal)] == [3, 3, 9, 3]
    assert len(calls) == 3


def test_many_results_are_forgotten_and_an_identity_is_never_that_of_another_object() -> None:
    @shared
    def first(numbers: tuple[int, ...]) -> int:
        return numbers[0]

    assert [first((at, at)) for at in range(1000)] == list(range(1000))
