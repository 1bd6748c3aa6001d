"""The same trainings by two versions of what watches them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.detection.judge import Judged


@dataclass(frozen=True)
class Pair:
    """A training, by the one and by the other."""

    before: Judged
    after: Judged

    @property
    def both(self) -> tuple[Judged, Judged]:
        return self.before, self.after

    @property
    def is_clear(self) -> bool:
        """Return whether both are decided, and alike."""
        return self.before.truth == self.after.truth != "undecided"


def pairs(before: Iterable[Judged], after: Iterable[Judged]) -> list[Pair]:
    """The runs that are in both."""
    known = {(one.run.case, one.run.seed): one for one in after}
    return [
        Pair(one, known[key]) for one in before if (key := (one.run.case, one.run.seed)) in known
    ]
