from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import PROFILES, Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation

_MOST_NODES = 100_000  # of a tree whose branches are followed


@register
@dataclass(frozen=True)
class TreeDepth(Rule):
    """A tree of a boosted model has grown too deep.

    Fires when the deepest leaf of a tree is more than ``depth`` levels below its root. Follows the
    branches if they are saved (``trees/ID``, ``trees/Yes``, ``trees/No``). Otherwise the depth is
    ``floor(log2(id + 1))`` of the largest node number: Amazon's log2(id), made exact for children
    numbered 2i+1 and 2i+2. This is too small if XGBoost numbers the nodes of an uneven tree without
    gaps.

    Parameters
    ----------
    depth: largest number of levels below the root.

    Example: a tree has 14 levels, since max_depth is 0 (no limit).
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    sagemaker: ClassVar[Mapping[str, Any]] = {"depth": 4.0}
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "max_depth is large or unlimited. Each level halves the samples that a split is based on, "
        "so deep trees learn the noise."
    )
    advice: ClassVar[str] = (
        "Lower max_depth (6 is XGBoost's default) or max_leaves, or raise min_child_weight or "
        "gamma, and compare the loss on validation data."
    )

    depth: Annotated[float, Meta(ge=0, extra={"infinite": True})] = 10.0

    def reads(self) -> Reads:
        kinds = ("node", "id", "yes", "no")
        return Reads({"trees": Read(roles=(Role.TREE,), kinds=kinds, fields=("max",), values=True)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        by_worker = groupby(
            sorted(step.tensors["trees"], key=attrgetter("worker")), attrgetter("worker")
        )
        found = [deepest for _, group in by_worker if (deepest := _deepest(list(group)))]
        if not found:
            return state, not_applicable(Reason.NO_TENSOR, "no nodes of a tree")
        depth, tensor = max(found, key=lambda pair: pair[0])
        if depth <= self.depth:
            return state, measured(HEALTHY, depth, self.depth)
        detail = f"a tree in {tensor.name} is {depth} levels deep, more than {self.depth:g}"
        fault = violation(Reason.ABOVE_THRESHOLD, detail, tensor, depth=depth, threshold=self.depth)
        return state, measured(fault, depth, self.depth)


def _deepest(tensors: list[Tensor]) -> tuple[int, Tensor] | None:
    """Return the depth of a worker's deepest tree, and the tensor that shows it."""
    columns = {tensor.name.rpartition("/")[2].lower(): tensor for tensor in tensors}
    texts = [_texts(columns.get(name)) for name in ("id", "yes", "no")]
    if texts[0] and len(texts[0]) == len(texts[1]) == len(texts[2]):
        return _followed(*texts), columns["id"]
    node = columns.get("node")
    if node is None or node.summary.max is None:
        return None
    return (max(int(node.summary.max), 0) + 1).bit_length() - 1, node


def _texts(tensor: Tensor | None) -> list[str]:
    value = None if tensor is None else tensor.value
    small = value is not None and value.dtype.kind == "U" and value.size <= _MOST_NODES
    return value.reshape(-1).tolist() if value is not None and small else []


def _followed(ids: list[str], yes: list[str], no: list[str]) -> int:
    """Return the longest path from a root, in branches. A loop, which no tree has, ends it."""
    branches = dict(zip(ids, zip(yes, no, strict=True), strict=True))
    below = {child for pair in branches.values() for child in pair}
    level = [node for node in branches if node not in below]
    left, depth = set(branches).difference(level), 0
    while level := [child for node in level for child in branches[node] if child in left]:
        left.difference_update(level)
        depth += 1
    return depth
