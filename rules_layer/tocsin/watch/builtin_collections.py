"""Collections with known names, which need no pattern in a watch file."""

from __future__ import annotations

from tocsin.tensors import collected, named, search

ALL = "all"
DEFAULT = "default"

# XGBoost's train-rmse is a loss, its train-auc is not; a tree has no weight like that of a layer.
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
    """Return whether smdebug has the collection, or its name says the role of its tensors.

    >>> built_in("gradients"), built_in("relu_output"), built_in("mine")
    (True, True, False)
    """
    return collection in _PATTERNS or collected(collection) is not None


def belongs(name: str, collection: str) -> bool:
    """Return whether a tensor belongs to a built-in collection by its name alone.

    It does if smdebug's pattern for the collection (of any framework) matches, or if the name shows
    the role of the collection: ``dense/kernel:0`` belongs to ``weights``.
    """
    if any(search(pattern, name) for pattern in _PATTERNS.get(collection, ())):
        return True
    wanted, found = collected(collection), named(name)
    if wanted is None or found is None:
        return False
    return wanted[0] is found[0] and wanted[1] in (None, found[1])


def built_in_patterns(collection: str) -> tuple[str, ...]:
    """Return the patterns of a built-in collection; none where there is no such collection."""
    return _PATTERNS.get(collection, ())
