"""The role of a scalar by its name, and which scalars are of an evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from tocsin.model import ACTING, COMPETING, Role

_MOST_NAMES = 1 << 12  # whose meaning is remembered: they come again in every row

_TRAIN = r"train(?:ing)?|learn"
_EVALUATION = (
    r"val(?:id(?:ation)?)?|eval(?:uat(?:e|ion))?|test(?:ing)?|dev|predict(?:ion)?|held_?out"
)
# A phase is a word of its own, or stands before a measure: "valLoss", "valloss", "trainAcc".
_PHASE = re.compile(
    rf"(?<![A-Za-z0-9])(?:({_TRAIN})|{_EVALUATION})(?:_?\d+)?(?:'s)?"
    r"(?:(?=[/_.\-:, ()\[\]]|$)|(?=(?-i:[A-Z])|loss|acc|err(?:or)?(?![a-z])|ppl))"
    rf"|(?<=[a-z])(?-i:(Train(?:ing)?)|Val(?:id(?:ation)?)?|Eval|Test|Dev)(?![a-z])",
    re.IGNORECASE,
)
_WHOLE = re.compile(rf"(?:({_TRAIN}|fit)|{_EVALUATION})(?:_?\d+)?|tr", re.IGNORECASE)
_EDGES = "/_.-: "
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_LEARNING_RATE = re.compile(
    r"(?:^|[/_.\- ])(?:lr|learning[_ ]?rate|base_lr)(?![a-z])|^(?:lr|learning_?rate)", re.IGNORECASE
)
_LOSS = re.compile(
    r"(?<!stop_)loss(?!_?(?:scale|weight|coef|less))|logloss|(?<![a-z])(?:m?error|err|nll|"
    r"perplexity|ppl|r?mse|rmsle|mae|mape|smape|huber|quantile|mlogloss|cost|bce|xent|"
    r"cross_?entropy|deviance|multiclass|l1|l2|bpc|bits_per_\w+|(?:cycle|idt)_[ab]|[dg]_(?:[ab]|gan|l1|real|fake|vgg|feat)|perte|verlust|p[eé]rdida|perda|потери)(?![a-z])|损失",
    re.IGNORECASE,
)
# What is said of a loss is no loss, nor is how good predictions are, unless it is called one.
_NO_LOSS = re.compile(
    r"(?<![a-z])(?:best|min|max|std|var|delta|target|grad|ema_decay|lr|time|count|num|weight|ratio|"
    r"code|alpha|beta|gamma|lambda|coef|coefficient|margin|(?:reader|batch)_?cost)(?![a-z])",
    re.IGNORECASE,
)
_GOOD = re.compile(
    r"(?<![a-z])(?:precision|recall|f1|f_?score|accuracy|acc|iou|dice|ap|auc|pck)(?![a-z])",
    re.IGNORECASE,
)
_CALLED_LOSS = re.compile(r"loss[^/]*$", re.IGNORECASE)  # as loss_dice, but not loss/dice
_SURELY_LOSS = re.compile(r"loss(?:es)?$", re.IGNORECASE)
_OF_LOSSES = re.compile(r"(?<![a-z])(?:best|lowest|warm_?up)(?![a-z])", re.IGNORECASE)
_GRADIENT = re.compile(
    r"(?<![a-z])(?:(?:total_)?grad(?:ient)?s?_?(?:l2_?)?norm|gnorm|norm_?of_?grad\w*)(?![a-z])",
    re.IGNORECASE,
)
_ACTS = re.compile(
    r"(?<![a-z])(?:reward|rewards|ep_?(?:isode_?)?(?:rew|ret|len|return)(?:ard)?\w*|ep(?:rew|len)\w*|"
    r"(?:average|mean|max|min|std)?_?ep_?(?:ret|len)|"
    r"(?:avg|average|mean|total|episode)_?returns?|returns?_mean|policy\w*|actor\w*|"
    r"(?:pi|q|v|vf|qf)_?loss|loss_?(?:pi|q|v)(?!\w)|epsilon|q_?value\w*)(?![a-z])",
    re.IGNORECASE,
)
_COMPETES = re.compile(
    r"(?<![a-z])(?:[dg]_(?:[ab]|gan|real|fake)|(?:loss|err)_?(?:d|g|gen|disc)|(?:d|g|gen|disc|dis)_?(?:loss|err)|"
    r"(?:loss_?)?(?:generator|discriminator|critic)\w*)(?![a-z])",
    re.IGNORECASE,
)


# The names of metrics that should rise.
_SCORE = re.compile(
    r"(?<![a-z])(?:auc|roc_?auc|aucpr|m?ap\d*|ndcg|accuracy|acc|top_?\d+|precision|recall|f1|r2|"
    r"(?:m|mean)?_?io_?u|dice|spearmanr?|pearsonr?|kendall|kappa|qwk|mcc|bleu|rouge\w*|psnr|ssim|pck)(?![a-z])",
    re.IGNORECASE,
)


@lru_cache(_MOST_NAMES)
def with_phase_first(name: str) -> str:
    """Return a name whose phase stands first, as rules compare losses: ``Loss/val`` is
    ``val/Loss``."""
    found = _PHASE.search(name)
    if found is None or (found.start() == 0 and name[found.end() : found.end() + 1] in _EDGES):
        return name
    rest = (name[: found.start()].rstrip(_EDGES), name[found.end() :].lstrip(_EDGES))
    return "/".join((found[0], *filter(None, rest)))


def is_phase(text: str) -> bool:
    """Return whether a text is the name of a phase: of a folder, or of the rows of a table."""
    return _WHOLE.fullmatch(text) is not None


def has_phase(name: str) -> bool:
    """Return whether a name has a phase in it, training or an evaluation."""
    return _PHASE.search(name) is not None


def is_of_evaluation(name: str) -> bool:
    """Return whether the first phase in a name is another than training."""
    found = _PHASE.search(name)
    return found is not None and not (found[1] or found[2])


def is_loss(name: str) -> bool:
    """Return whether a name says that a scalar is a loss, of training or of an evaluation."""
    words = _CAMEL_CASE.sub("_", name)
    if _LOSS.search(words) is None or _LEARNING_RATE.search(name) or _OF_LOSSES.search(words):
        return False
    if _SURELY_LOSS.search(words) is not None:
        return True
    is_good = _GOOD.search(words) is not None and _CALLED_LOSS.search(words) is None
    return not is_good and _NO_LOSS.search(words) is None


def is_score(name: str) -> bool:
    """Return whether a name says that a scalar should rise, as an accuracy should."""
    return _SCORE.search(_CAMEL_CASE.sub("_", name)) is not None and not is_loss(name)


def role_of(name: str) -> Role:
    """Return the role of a scalar.

    A loss of an evaluation is a metric of its step: rules that compare training with evaluation
    find it by its name, and rules about the training's loss leave it alone.
    """
    if _GRADIENT.search(_CAMEL_CASE.sub("_", name)):
        return Role.GRADIENT
    if _LEARNING_RATE.search(name):
        return Role.LEARNING_RATE
    return Role.LOSS if is_loss(name) and not is_of_evaluation(name) else Role.METRIC


def kind_of_losses(names: Iterable[str]) -> str | None:
    """Return the kind of all losses of a training, by all names that it recorded; None if they
    fall."""
    words = [_CAMEL_CASE.sub("_", name) for name in names]
    if any(_ACTS.search(each) for each in words):
        return ACTING
    return COMPETING if any(_COMPETES.search(each) for each in words) else None
