"""Judges skill by shuffling: compares losses with those of the same predictions and other labels.

Where predictions do not depend on the sample, a loss and its re-paired loss have the same
distribution, whatever the loss is, however it drifts and however steps depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tocsin.model import Role
from tocsin.rules._rule import Read, Step, Tensor
from tocsin.rules.skill._blocks import newest, with_part

SKILLS = Read(roles=(Role.SKILL,), values=True)
"""Reads the comparisons: rows of loss, re-paired loss, loss of a constant, number of samples."""

LEAST_SKILL = 0.0025
"""A proof needs more skill than this: a network with lucky weights has some."""

MOST_SITES = 4
"""The number of calls of a loss that a rule follows in one mode."""

MOST_BLOCKS = 64  # so that the state of a long run stays small

TOGETHER = 16
"""Comparisons of a save in training that count as one. The first steps are compared one by one, and
then only those that are saved; so a save counts, and of a long one each part of this length."""

_STAKES = (0.2, 0.4, 0.8)  # stakes of bets on skill, for small and large skill
_PROOF = math.log(100.0)
_TIE = 1e-9  # smaller differences of two losses are rounding
_BATCHES = 8  # of blocks, from which the error of a mean is estimated

# Student's t at 99.9 %, by degrees of freedom.
_T = {2: 22.3, 3: 10.2, 4: 7.17, 5: 5.89, 6: 5.21, 7: 4.79}

Memory = Mapping[str, Any]
"""The memory of a site.

``n``: the number of comparisons; ``rows``: of samples in them.
``since``: the mode step before the first of them.
``wealth``: the logarithms of what bets on skill have won so far.
``proved``: after how many comparisons it was proved that there is skill.
``sums``: of each block the number of comparisons, the sum of skills, those won and those lost;
and what else ``with_part`` keeps.
"""


@dataclass(frozen=True)
class LossSite:
    """A call of a loss function, and its comparisons since the last save.

    ``skills``: by how much each loss is lower than the re-paired one, as a share of that.
    ``losses``: of each the loss, the re-paired one, and that of a constant guess, perhaps NaN.
    ``rows``: the number of samples in them.
    ``constant``: by how much the loss is lower than that of a constant guess; None if unknown.
    """

    key: str
    tensor: Tensor
    skills: tuple[float, ...]
    losses: tuple[tuple[float, float, float], ...]
    rows: int
    constant: float | None


@dataclass(frozen=True)
class SkillBounds:
    """The mean skill of several batches, its standard error, and its bounds at 99.9 %."""

    mean: float
    error: float
    low: float
    high: float


def sites(step: Step, tensors: Iterable[Tensor]) -> Iterator[LossSite]:
    """Yield the calls of losses with comparisons. Workers are pooled."""
    pooled: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.value is not None and tensor.value.ndim == 2 and tensor.value.shape[1] == 4:
            pooled.setdefault(tensor.name, []).append(tensor)
    for name, group in pooled.items():
        values = [each.value for each in group if each.value is not None]
        if any(value.dtype.kind not in "fiu" for value in values):
            continue
        rows = np.concatenate(values).astype(np.float64)
        rows = rows[np.isfinite(rows[:, :2]).all(axis=1) & (rows[:, 3] >= 1)]
        rows = rows[np.abs(rows[:, 1]) > 0]
        loss, repaired, constant, samples = rows.T
        with np.errstate(all="ignore"):
            skill = np.clip((repaired - loss) / np.abs(repaired), -1.0, 1.0)
            # All labels are the same: there is nothing to pair, and a constant makes no error.
            pointless = (np.abs(skill) < _TIE) & ~(constant > 0.02 * np.abs(loss))
        kept = ~pointless & np.isfinite(skill)
        if not kept.any():
            continue
        known = kept & np.isfinite(constant) & (constant != 0)
        with np.errstate(over="ignore"):
            shares = (constant[known] - loss[known]) / np.abs(constant[known])
        yield LossSite(
            name[-40:],
            group[0],
            tuple(skill[kept].tolist()),
            tuple(map(tuple, rows[kept, :3].tolist())),
            int(min(samples[kept].sum(), 1e12)),
            float(shares.mean()) if known.any() else None,
        )


def added(
    memory: Memory,
    site: LossSite,
    mode_step: int,
    *,
    most: int = MOST_BLOCKS,
    together: int = TOGETHER,
) -> dict[str, Any]:
    """Add the comparisons of a save to the memory of their site: ``together`` count as one, as
    fewer do."""
    n, blocks = memory.get("n", 0), memory
    wealth = list(memory.get("wealth", (0.0,) * len(_STAKES)))
    proved = memory.get("proved")
    for first in range(0, len(site.skills), together):
        part = site.skills[first : first + together]
        signs = [(skill > LEAST_SKILL, skill < LEAST_SKILL) for skill in part]
        for won, lost in signs:
            for at, stake in enumerate(_STAKES):
                wealth[at] += math.log1p(stake) * won + math.log1p(-stake) * lost
            n += 1
            if proved is None and _is_proof(wealth):
                proved = n
        sums = [len(part), round(sum(part), 4), *map(sum, zip(*signs, strict=True))]
        blocks = with_part(blocks, sums, most)
    return {
        **memory,
        **{key: blocks[key] for key in ("parts", "span", "sums") if key in blocks},
        "n": n,
        "rows": memory.get("rows", 0) + site.rows,
        "since": memory.get("since", mode_step),
        "wealth": [round(each, 3) for each in wealth],
        "proved": proved,
    }


def _is_proof(wealth: Sequence[float]) -> bool:
    """Return whether the mean wealth of the bets is at least 100."""
    most = max(wealth)
    mean = most + math.log(sum(math.exp(each - most) for each in wealth) / len(wealth))
    return mean >= _PROOF


def recent(memory: Memory, share: float, least: int = 0) -> list[Sequence[float]]:
    """Return the newest blocks that hold this share of all saves, and so many comparisons."""
    found = newest(memory, share)
    older = memory.get("sums", ())[: -len(found) or None]
    for block in reversed(older):
        if sum(each[0] for each in found) >= least:
            break
        found.insert(0, block)
    return found


def has_proof(blocks: Iterable[Sequence[float]]) -> bool:
    """Return whether these blocks prove that there is skill."""
    known = list(blocks)
    won, lost = sum(block[2] for block in known), sum(block[3] for block in known)
    return _is_proof([won * math.log1p(s) + lost * math.log1p(-s) for s in _STAKES])


def bounds(blocks: Sequence[Sequence[float]]) -> SkillBounds | None:
    """Return the mean skill in these blocks. None if they are too few for bounds."""
    count = min(_BATCHES, len(blocks))
    if count < 3:
        return None
    edges = [round(at * len(blocks) / count) for at in range(count + 1)]
    batches = [blocks[low:high] for low, high in pairwise(edges)]
    means = [sum(b[1] for b in batch) / sum(b[0] for b in batch) for batch in batches]
    mean = sum(block[1] for block in blocks) / sum(block[0] for block in blocks)
    deviation = math.sqrt(sum((each - mean) ** 2 for each in means) / (count - 1))
    error = deviation / math.sqrt(count)
    margin = _T[count - 1] * error
    return SkillBounds(mean, error, mean - margin, mean + margin)


def percent(share: float) -> str:
    """Return a share in words: ``0.3 %``."""
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"
