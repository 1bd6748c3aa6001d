"""Views that change the order of axes, where a permutation is needed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any


def is_permuted(before: Any, after: Any) -> bool:
    """Return whether a view moves an axis past others. Ignores axes of length 1.

    It is so where an axis that is neither divided nor joined has another stride. The last two are
    left alone where one is a multiple of the other: heads may have been moved to the samples.
    """
    if 0 in before:
        return False
    for one, other, ends in _groups(before, after):
        if len(one) == len(other) == 2 and ends and max(one) % min(one) == 0:
            continue
        if any(one.count(each) == other.count(each) == 1 for each in one):
            return True
    return False


def _groups(before: Any, after: Any) -> Iterator[tuple[list[int], list[int], bool]]:
    """The smallest groups of axes whose numbers stay together, where both have several axes; and
    whether it is the last group."""
    given = [each for each in before if each != 1]
    found = [each for each in after if each != 1]
    while given and found:
        one, other = [given.pop(0)], [found.pop(0)]
        while (fewer := math.prod(one) < math.prod(other)) or math.prod(one) > math.prod(other):
            (one if fewer else other).append((given if fewer else found).pop(0))
        if len(one) > 1 and len(other) > 1:
            yield one, other, not given
