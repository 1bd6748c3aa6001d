"""Collections that need no pattern of their own, because everybody knows what they hold."""

from __future__ import annotations

from tocsin.tensors import collected, named, search

ALL = "all"
DEFAULT = "default"

# XGBoost's train-rmse; what goes up is no loss; and a tree has no weight like that of a layer.
_EVALUATION = r"^[A-Za-z]\w*-"
_RISING = r"(?:auc|aucpr|map|ndcg|pre|accuracy)\b"
_LAYER = "^(?!gradient|(?:feature_importance|average_shap|full_shap|hyperparameters|trees)/)"

_PATTERNS: dict[str, tuple[str, ...]] = {
    ALL: ("",),
    DEFAULT: (),
    "weights": (f"{_LAYER}.*weight",),
    "biases": (f"{_LAYER}.*bias",),
    "gradients": ("^gradient",),
    "losses": (
        "[Ll]oss_(?!input).*output",
        "loss._(?!input).*output",
        rf"{_EVALUATION}(?!{_RISING})[^/]+$",
    ),
    "metrics": (rf"{_EVALUATION}[\w@.-]+$",),
    "hyperparameters": ("^hyperparameters/",),
    "predictions": ("^predictions$",),
    "labels": ("^labels$",),
    "feature_importance": ("^feature_importance/",),
    "average_shap": (r"^average_shap/.*(?<!/bias)$",),
    "full_shap": (r"^full_shap/.*(?<!/bias)$",),
    "trees": ("^trees/",),
    "inputs": (),
    "outputs": (),
    "layers": (),
    "optimizer_variables": (),
    "sm_metrics": (),
}


def built_in(collection: str) -> bool:
    """Whether it is one of smdebug's, or one whose name says what its tensors are.

    >>> built_in("gradients"), built_in("relu_output"), built_in("mine")
    (True, True, False)
    """
    return collection in _PATTERNS or collected(collection) is not None


def belongs(name: str, collection: str) -> bool:
    """Whether a tensor, going by its name alone, is of a built-in collection.

    It is if smdebug's pattern for the collection (of any framework) matches, or if the name tells
    the role that the collection is for: ``dense/kernel:0`` belongs to ``weights``.
    """
    if any(search(pattern, name) for pattern in _PATTERNS.get(collection, ())):
        return True
    held, told = collected(collection), named(name)
    return (
        held is not None and told is not None and held[0] is told[0] and held[1] in (None, told[1])
    )
