"""Terms of a loss that only one sign can be meant of."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from tocsin_hooks.torch.graph import before_views, is_error, name_of, nodes_of, terms_of

_MOST_NODES = 64  # from the loss to a term
_NEAR = 12  # nodes, from a smaller one of two to their ratio
_OF_DERIVATIVES = "BackwardBackward"  # in the name of what computes a derivative's derivative


def takes_the_optimistic(loss: Any) -> bool:
    """Whether a loss takes the better one of two objectives of a policy, of which one has its ratio
    of probabilities clipped (Schulman et al., 2017): the worse one is meant, which is the smaller
    one of what is to grow, and the larger one of what is to fall."""
    wanted = {"MinimumBackward0": -1, "MaximumBackward0": 1}
    for node in nodes_of(loss.grad_fn, _MOST_NODES):
        sign = wanted.get(name_of(node))
        if sign is not None and _has_clipped_ratio(node) and _sign(loss, node) == -sign:
            return True
    return False


def rewards_derivatives(loss: Any) -> bool:
    """Whether a loss falls as the squares of derivatives by inputs grow, or of their norms' errors,
    beside terms that are no errors: it is a penalty, and nothing else limits them. All of the
    squares may be meant to grow, as by weights that go where an equation does not hold. A square
    within an error, as in that of a norm, is to grow as long as it is too small."""
    terms = [each for each in terms_of(loss) if each.next_functions]  # no parameters as they are
    return not all(map(is_error, terms)) and any(
        _is_square(node)
        and any(_OF_DERIVATIVES in name_of(each) for each in nodes_of(node, _MOST_NODES))
        and _sign(loss, node) < 0
        for node in terms
    )


def _sign(loss: Any, node: Any) -> int:
    """That of the gradient of what a node gives; 0 if it has both, or none."""
    edge = GradientEdge(node, 0)
    (found,) = torch.autograd.grad(loss, [edge], retain_graph=True, allow_unused=True)
    if found is None or not bool(found.any()):
        return 0
    return int(bool((found >= 0).all())) - int(bool((found <= 0).all()))


def _has_clipped_ratio(node: Any) -> bool:
    """Whether one of two products is of what the other one is of, clipped."""
    both = [set(nodes_of(each, _NEAR)) for each, _ in node.next_functions]
    for clipped, plain in (both, both[::-1]):
        for each in clipped:
            if name_of(each) == "ClampBackward1":
                ratio = before_views(each.next_functions[0][0])
                if name_of(ratio) == "ExpBackward0" and ratio in plain and each not in plain:
                    return True
    return False


def _is_square(node: Any) -> bool:
    if name_of(node) == "PowBackward0":
        return bool(node._saved_exponent == 2)
    before = [each for each, _ in node.next_functions]
    return name_of(node) == "MulBackward0" and before[0] is not None and before[0] is before[1]
