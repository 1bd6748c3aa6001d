"""Which forward passes make up a step."""

from __future__ import annotations

import pytest
from tocsin_hooks.torch.steps import StepDetector, Turns


def begun(events: str, accumulate: int | None) -> str:
    """Of each forward pass whether a step begins with it.

    ``f`` a forward pass in training, ``z`` one before which gradients were set to None, ``s`` one
    that finds those of the last update, ``o`` an optimizer's step, ``u`` the begin of one that
    computes the loss itself, ``e`` an evaluation.
    """
    steps = StepDetector(accumulate)
    found = []
    for event in events.replace(" ", ""):
        if event == "o":
            steps.updated()
        elif event == "u":
            steps.updating()
        elif event == "e":
            steps.left()
        else:
            zeroed, same = event == "z", event == "s"
            begins = steps.begins(lambda zeroed=zeroed: zeroed, lambda same=same: same)
            found.append("B" if begins else ".")
    return "".join(found)


@pytest.mark.parametrize(
    ("events", "accumulate", "expected"),
    [
        ("", None, ""),
        ("zo zo zo", None, "BBB"),  # set_to_none
        ("fo fo fo", None, "BBB"),  # gradients set to zero
        ("zfffo zfffo", None, "B...B..."),  # accumulation
        ("ffffo ffffo", None, "B...B..."),
        ("zo zo z z zo", None, "BBBBB"),  # an optimizer skipped twice
        ("zf o zf zf o", None, "B.B.B."),  # and with two micro-batches
        ("z z z zo zo", None, "BBBBB"),  # skipped from the start
        ("zzzo zo zo zo zo z zo", None, "BBBBBBBBB"),  # which is forgotten soon
        ("zzo zzo zzo", None, "BBB.B."),  # two passes before one backward: known after the first
        ("ffo fffo fffo fffo", None, "B.B.BB..B.."),  # a GAN's discriminator
        ("fo sso ssssso so ssso", None, "BB.B....BB.."),  # as many passes as it likes
        ("so s fo", None, "BBB"),  # an optimizer skipped
        ("ssssss", 2, "B.B.B."),
        ("zfffo zfffo zfo zfffo", None, "B...B...B.B..."),  # fewer at the end of an epoch
        ("zfo zfo ee zfo", None, "B.B.B."),  # an evaluation in between
        ("zf ef o", None, "B.B"),  # and in the midst of a step
        ("zo f e f", None, "BBB"),
        ("z z z", None, "BBB"),  # a loop that updates by itself
        ("uzzzo uzzzzo uzo", None, "B..B...B"),  # L-BFGS
        ("uzo uzo", None, "BB"),
        ("ffffff", 2, "B.B.B."),
        ("zfzfzf", 3, "B..B.."),
        ("ffo fo ffo", 2, "B.BB."),  # fewer at the end of an epoch
        ("fff", 1, "BBB"),
    ],
)
def test_a_step_begins(events: str, accumulate: int | None, expected: str) -> None:
    assert begun(events, accumulate) == expected


def test_no_more_than_64_passes_are_one_step() -> None:
    """A loop without an optimizer that sets gradients to zero in place: each pass is a step."""
    assert begun("f" * 70, None) == "B" + 63 * "." + 6 * "B"
    assert begun(100 * "f" + "o" + 70 * "f", None).count("B") > 2
    evaluated = begun("f" * 40 + "e" + "f" * 40, None)
    assert evaluated == "B" + 39 * "." + "B" + 23 * "." + 16 * "B", "evaluations in between"


def test_a_loop_that_updates_by_itself_passes_through_a_sequence() -> None:
    """A recurrent model is called for each letter, and gradients are None after each word."""
    assert begun(40 * "zfff", None) == 40 * "B..."


def test_many_passes_before_the_first_update_are_no_guess_for_ever() -> None:
    """An episode of 200 passes, as of REINFORCE."""
    episode = "f" * 200 + "o"
    assert begun(2 * episode, None)[200:].count("B") == 4


def test_a_step_ends_though_nobody_updates_the_model() -> None:
    assert begun("fo" + 4100 * "s", None).count("B") == 4


def test_steps_are_counted() -> None:
    steps = StepDetector(2)
    for _ in range(5):
        steps.begins(lambda: False)
    assert steps.begun == 3


@pytest.mark.parametrize("accumulate", [0, -1])
def test_accumulate_is_at_least_one(accumulate: int) -> None:
    with pytest.raises(ValueError, match="accumulate is"):
        StepDetector(accumulate)


@pytest.mark.parametrize(
    ("latest", "expected"),
    [
        ("", None),
        ("aaaa", None),
        ("ab", None),
        ("abab", 2),  # a is next
        ("ababa", 2),  # b is next
        ("cccgcccg", 6),
        ("cccgccc", None),  # it is not sure yet
        ("cccgcccgccc", 2),
        ("cccccgcccccgccccc", 2),
    ],
)
def test_whose_turn_it_is(latest: str, expected: int | None) -> None:
    class Optimizer: ...

    optimizers = {name: Optimizer() for name in latest}
    turns = Turns()
    for each in latest:
        turns.updated(optimizers[each])
    assert turns.next() == expected
