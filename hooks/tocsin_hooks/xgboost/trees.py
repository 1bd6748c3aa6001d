"""The trees of a boosted model as columns, one row for each node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NAN = float("nan")
_NONE = "nan"  # what stands in a column of strings where there is nothing


@dataclass(frozen=True)
class Node:
    """A row, named as ``Booster.trees_to_dataframe`` names its columns.

    ``ID``, ``Yes``, ``No`` and ``Missing`` are ``<tree>-<node>``. The ``Gain`` of a leaf is its
    value; that of a leaf with a value for each target is NaN, as is what XGBoost 2 does not know of
    such a tree.
    """

    Tree: int
    Node: int
    ID: str
    Feature: str
    Split: float
    Yes: str
    No: str
    Missing: str
    Gain: float
    Cover: float
    Category: str


COLUMNS = tuple(field.name for field in fields(Node))


def tree_columns(booster: Any, rounds: int) -> dict[str, NDArray[Any]]:
    """Return the trees of the last of ``rounds`` boosting rounds of a gbtree or dart booster, by
    column.

    Rows go by tree and node. Several classes, targets or parallel trees give several trees in a
    round; they are numbered as in the whole model.
    """
    last = booster[rounds - 1 : rounds]
    learner = json.loads(bytes(last.save_raw("json")))["learner"]
    model = learner["gradient_booster"]
    trees = model.get("gbtree", model)["model"]["trees"]  # dart keeps a gbtree inside
    first = (rounds - 1) * len(trees)
    features = booster.feature_names
    rows = [
        node
        for number, tree in enumerate(trees, first)
        for node in sorted(_nodes(number, tree, features), key=lambda node: node.Node)
    ]
    columns = zip(*map(astuple, rows), strict=True)
    return {name: np.array(column) for name, column in zip(COLUMNS, columns, strict=True)}


def _nodes(number: int, tree: Mapping[str, Any], features: Sequence[str] | None) -> Iterator[Node]:
    """All nodes that can be reached from the root: pruned ones stay in the arrays."""
    left, right = tree["left_children"], tree["right_children"]
    categories = _categories(tree)
    unknown = [_NAN] * len(left)
    covers, gains = tree.get("sum_hessian", unknown), tree.get("loss_changes", unknown)
    vector = int(tree["tree_param"]["size_leaf_vector"]) > 1
    reached = [0]
    while reached:
        at = reached.pop()
        cover = covers[at]
        name = f"{number}-{at}"
        if left[at] == -1:
            value = _NAN if vector else tree["split_conditions"][at]
            nothing = (_NAN, _NONE, _NONE, _NONE)
            yield Node(number, at, name, "Leaf", *nothing, value, cover, _NONE)
            continue
        reached += (left[at], right[at])
        feature = tree["split_indices"][at]
        chosen = categories.get(at)
        # The categories that are listed go to the right.
        yes, no = (left[at], right[at]) if chosen is None else (right[at], left[at])
        yield Node(
            number,
            at,
            name,
            features[feature] if features else f"f{feature}",
            tree["split_conditions"][at] if chosen is None else _NAN,
            f"{number}-{yes}",
            f"{number}-{no}",
            f"{number}-{left[at] if tree['default_left'][at] else right[at]}",
            gains[at],
            cover,
            _NONE if chosen is None else ",".join(map(str, chosen)),
        )


def _categories(tree: Mapping[str, Any]) -> dict[int, list[int]]:
    """The categories that a split lists, by node; other nodes split by a number."""
    spans = zip(
        tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
    )
    return {node: tree["categories"][start : start + size] for node, start, size in spans}
