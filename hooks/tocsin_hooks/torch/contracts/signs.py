"""Terms of a loss whose sign is certainly wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tocsin_hooks.torch import autograd
from tocsin_hooks.torch.autograd import exponent_of, inputs_of, name_of, softmax_of
from tocsin_hooks.torch.graph import (
    before_views,
    gradient_of,
    has_shares,
    is_error,
    nodes_of,
    terms_of,
)

_MOST_NODES = 64  # from the loss to a term
_NEAR = 12  # nodes, from a smaller one of two to their ratio
_MANY_NODES = 500  # from the loss of all steps of episodes to a term of one of them
_CHOICES = 4  # whose worth is looked at


def broken_by_signs(loss: Any) -> Iterator[str]:
    """Yield the contracts that the signs of a loss's terms break."""
    if ppo_clip_uses_max(loss):
        yield "ppo_clip_uses_max"
    if rewards_derivatives(loss):
        yield "gradient_penalty_subtracted"
    if lowers_likelihood(loss):
        yield "likelihood_minimised"
    if lowers_entropy(loss):
        yield "entropy_minimised"


def ppo_clip_uses_max(loss: Any) -> bool:
    """Return whether a loss takes the better one of two objectives of a policy, of which one has
    its ratio of probabilities clipped (Schulman et al., 2017): the worse one is meant, which is the
    smaller one of what is to grow, and the larger one of what is to fall."""
    wanted = {autograd.MINIMUM: -1, autograd.MAXIMUM: 1}
    for node in nodes_of(loss.grad_fn, _MOST_NODES):
        sign = wanted.get(name_of(node))
        if sign is not None and _has_clipped_ratio(node) and _sign(loss, node) == -sign:
            return True
    return False


def rewards_derivatives(loss: Any) -> bool:
    """Return whether a loss falls as the squares of derivatives by inputs grow, or of their norms'
    errors, beside terms that are no errors: it is a penalty, and nothing else limits them. All of
    the squares may be meant to grow, as by weights that go where an equation does not hold. A
    square within an error, as in that of a norm, is to grow as long as it is too small."""
    terms = [each for each in terms_of(loss) if inputs_of(each)]  # no parameters as they are
    return not all(map(is_error, terms)) and any(
        _is_square(node)
        and any(autograd.OF_DERIVATIVES in name_of(each) for each in nodes_of(node, _MOST_NODES))
        and _sign(loss, node) < 0
        for node in terms
    )


def lowers_likelihood(loss: Any) -> bool:
    """Return whether a loss is a cross-entropy with its sign reversed: the mean or sum of the
    log-probabilities of labels, all alike. Beside other terms, or with weights such as the returns
    of actions, that may be meant."""
    terms = [*terms_of(loss)]
    nodes = nodes_of(terms[0], _NEAR) if len(terms) == 1 else ()
    shares = [each for each in nodes if name_of(each) == autograd.LOG_SOFTMAX]
    classes = softmax_of(shares[0]) if len(shares) == 1 else None
    found = None if classes is None else gradient_of(loss, shares[0])
    if classes is None or found is None:
        return False
    chosen = found[found != 0]
    if not len(chosen) or chosen[0] < 0 or (chosen != chosen[0]).any():
        return False
    return bool(((found != 0).sum(classes.axis) <= 1).all())  # one class of a sample


def lowers_entropy(loss: Any) -> bool:
    """Return whether a loss falls with the entropy of a policy: what was chosen is to grow or to
    fall by its worth. That of a classifier may be meant to fall."""
    nodes = [*nodes_of(loss.grad_fn, _MANY_NODES)]
    products = [each for each in nodes if _is_share_times_its_logarithm(each)]
    if not products or _sign(loss, products[0]) >= 0:
        return False
    chosen = [each for each in nodes if name_of(each) == autograd.GATHER][:_CHOICES]
    worth = (gradient_of(loss, each) for each in chosen)
    return any(e is not None and bool((e < 0).any() & (e > 0).any()) for e in worth)


def _is_share_times_its_logarithm(node: Any) -> bool:
    """Return whether it gives the terms of an entropy, also those of ``torch.distributions``."""
    if name_of(node) != autograd.MUL:
        return False
    given = [before_views(each) for each in inputs_of(node)]
    given = [inputs_of(e)[0] if name_of(e) == autograd.CLAMP else e for e in given]
    shares = [name_of(each) == autograd.SOFTMAX for each in given]
    return sum(shares) == 1 and all(map(has_shares, given))


def _sign(loss: Any, node: Any) -> int:
    """Return the sign of the gradient of a node's output; 0 if it has both, or none."""
    found = gradient_of(loss, node)
    if found is None or not bool(found.any()):
        return 0
    return int(bool((found >= 0).all())) - int(bool((found <= 0).all()))


def _has_clipped_ratio(node: Any) -> bool:
    """Return whether one of two products is of what the other one is of, clipped."""
    both = [set(nodes_of(each, _NEAR)) for each in inputs_of(node)]
    for clipped, plain in (both, both[::-1]):
        for each in clipped:
            if name_of(each) == autograd.CLAMP:
                ratio = before_views(inputs_of(each)[0])
                if name_of(ratio) == autograd.EXP and ratio in plain and each not in plain:
                    return True
    return False


def _is_square(node: Any) -> bool:
    if name_of(node) == autograd.POW:
        return bool(exponent_of(node) == 2)
    before = inputs_of(node)
    return name_of(node) == autograd.MUL and before[0] is not None and before[0] is before[1]
