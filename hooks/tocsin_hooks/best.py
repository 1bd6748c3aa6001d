"""The direction in which a number improves, by its name."""

from __future__ import annotations

import re

_FALLS = re.compile(r"(?<![a-z])(loss|error|mae|mse|rmse|mape|perplexity|cer|wer)(?![a-z])")
_RISES = re.compile(r"(?<![a-z])(acc|accuracy|auc|auroc|f1|precision|recall|iou|dice)(?![a-z])")
_TURNED = re.compile(r"(?<![a-z])(neg|negative|minus)(?![a-z])")


def takes_the_worst(name: str, *, largest: bool) -> bool:
    """Return whether the largest value of what has such a name is taken for the best, and is the
    worst; or the smallest.

    >>> takes_the_worst("val_loss", largest=True), takes_the_worst("val_accuracy", largest=True)
    (True, False)
    """
    known = name.lower()
    if _TURNED.search(known):
        return False
    falls = _FALLS.search(known) is not None
    return largest if falls else not largest and _RISES.search(known) is not None
