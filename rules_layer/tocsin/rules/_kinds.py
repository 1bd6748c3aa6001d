"""Recognises losses whose value does not show how well the model learns."""

from __future__ import annotations

import re
from functools import lru_cache

from tocsin.model import ACTING, COMPETING
from tocsin.rules._rule import Tensor
from tocsin.rules._series import MOST_NAMES
from tocsin.rules._shared import shared

_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_MARKED = {COMPETING: "adversarial", ACTING: "reinforcement"}

_KINDS = {
    "adversarial": "generator|discriminator|critic|adversar"
    r"|(?:[dg]|gen|disc)_?loss(?![a-z])|(?:loss|err)[_/]?(?:[dg]|gen|disc)(?![a-z])",
    "reinforcement": "policy|actor|ppo|value_loss|q_loss|td_(?:loss|error)|surrogate|advantage",
    "metric learning": "triplet|contrastive|info_?nce|nt_?xent|cosine_embedding|hinge_embedding",
    "ranking": "margin_ranking|ranking|bpr|lambda_?rank|list_?net",
    "self-supervised": "byol|sim_?siam|barlow|vicreg|dino",
}

_KIND = re.compile(
    r"(?<![a-z])(?:"
    + "|".join(f"(?P<k{at}>{words})" for at, words in enumerate(_KINDS.values()))
    + ")"
)


def kind_of_loss(tensor: Tensor) -> str | None:
    """Return the kind of a loss whose value does not show progress; None for all others.

    Losses that compete rise in turns; the loss of a policy is not one that falls; mining makes the
    pairs of metric learning and ranking harder while the model learns; targets of self-supervised
    training move. They are known by their names; the hook marks losses that compete and those of
    models that act.
    """
    return _kind_by_name(tensor.name) or _MARKED.get(tensor.kind or "")


def acts(loss: Tensor) -> bool:
    """Return whether it is the loss of a model that chooses actions."""
    return kind_of_loss(loss) == "reinforcement"


@lru_cache(MOST_NAMES)
def _kind_by_name(name: str) -> str | None:
    found = _KIND.search(_CAMEL_CASE.sub("_", name).lower())
    return list(_KINDS)[int(str(found.lastgroup)[1:])] if found else None


@shared
def with_level(tensors: tuple[Tensor, ...], *, named: bool) -> tuple[tuple[Tensor, ...], str]:
    """Return the losses whose value shows progress, and the kinds of the others in words.

    Losses that a user names all count.
    """
    known = [(tensor, None if named else kind_of_loss(tensor)) for tensor in tensors]
    kinds = dict.fromkeys(kind for _, kind in known if kind)
    if "reinforcement" in kinds:
        kinds.pop("adversarial", None)  # the critics of an actor
    return tuple([tensor for tensor, kind in known if not kind]), " and ".join(kinds)


def without_level(kinds: str) -> str:
    """Return the reason why losses of these kinds are not judged."""
    return f"the level of a loss has no meaning in {kinds} training"
