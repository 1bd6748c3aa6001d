"""The role of a tensor by its name, as smdebug's hooks and the frameworks name tensors.

The patterns run on names that nobody has checked: each is plain and takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from tocsin.model import COLLECTION_ROLES, Role
from tocsin.tensors.reductions import base_name

Named = tuple[Role, str | None]

_NUMBER = r"(?:_?\d+)?"
_COLON = r"(?::\d+)?"  # TensorFlow's number of an output
_SPLIT = r"(?:(?:train|training|val|valid|validation|eval|evaluation|test|dev)[/_.\-])?"
_KIND = (
    r"(?<![A-Za-z])(?P<kind>leaky_?re_?lu|p_?re_?lu|rrelu|re_?lu|[cs]?elu|gelu|silu|swish|mish|"
    r"(?:log_?|hard_?)?sigmoid|hard_?tanh|tanh|(?:log_?)?softmax|softplus)"
)
_XGBOOST = r"^[A-Za-z_][\w.]*-"  # the name of an evaluation set
_NORM = r"(?:[Nn]orm|(?<![a-z])[bl]n)\w{0,32}[/_.]"
_LSTM = r"(?:_[ih]h_l\d+(?:_reverse)?)?"

# The first that is found in the name counts. None: nothing is known, whatever follows.
_TABLE: tuple[tuple[Role | None, str], ...] = (
    # Of no role, though they look like it.
    (None, r"^(?:hyperparameters|full_shap)/|^average_shap/bias$"),
    (None, r"(?:running|moving)_(?:mean|var|variance)" + _COLON + "$|num_batches_tracked$"),
    (None, r"(?:^|[/_.])(?:class|sample|loss|pos|token|example)_weights?$"),
    # Gradients: everything of a parameter's name follows them.
    (Role.GRADIENT, r"^grads?/|(?:^|/)gradients?(?:/|$)|[./]grad$"),
    # XGBoost.
    (Role.FEATURE_IMPORTANCE, r"^feature_importance/(?P<kind>weight|(?:total_)?(?:gain|cover))\b"),
    (Role.FEATURE_IMPORTANCE, r"^feature_importance(?:/|$)"),
    (Role.FEATURE_IMPORTANCE, r"^average_(?P<kind>shap)/"),
    (Role.TREE, r"^trees/(?P<kind>\w+)$"),
    (Role.METRIC, _XGBOOST + r"(?:auc|aucpr|(?:pre|ndcg|map)(?:@\d+)?-?|[a-z-]*accuracy)$"),
    (
        Role.LOSS,
        _XGBOOST + r"(?:rmsle|rmse|mae|mape|mphe|m?logloss|m?error|quantile|expectile|"
        r"[a-z]+-(?:nloglik|deviance))(?:@[\d.]+)?$",
    ),
    # The block that computes the loss: its output, and the two inputs that it compares.
    (Role.LOSS, r"(?i:loss|criterion)\d*_outputs?(?:_\d+)?$"),
    (None, r"^(?i:.*(?:embedding|triplet|ranking|ctc).*loss)\d*_input_\d+$"),
    (Role.PREDICTION, r"(?i:loss|criterion)\d*_input_0$"),
    (Role.LABEL, r"(?i:loss|criterion)\d*_input_1$"),
    (None, r"(?i:loss|criterion)\d*_input_\d+$"),
    # Activations: PyTorch and MXNet's blocks, Keras' layers, TensorFlow's operations.
    (
        Role.ACTIVATION_INPUT,
        rf"(?i:{_KIND}{_NUMBER}(?:_fwd)?[_/]inputs?(?:_\d+)?{_COLON}$)",
    ),
    (
        Role.ACTIVATION_OUTPUT,
        rf"(?i:{_KIND}{_NUMBER}(?:_fwd)?[_/]outputs?(?:_\d+)?{_COLON}$)",
    ),
    (Role.ACTIVATION_OUTPUT, rf"(?i:/{_KIND}(?:_\d+)?:\d+$)"),
    (Role.ACTIVATION_INPUT, rf"(?:^|[_./])act(?:ivation)?{_NUMBER}[_/]inputs?(?:_\d+)?$"),
    (Role.ACTIVATION_OUTPUT, rf"(?:^|[_./])act(?:ivation)?{_NUMBER}[_/]outputs?(?:_\d+)?$"),
    # Parameters.
    (Role.BIAS, rf"(?:^|[/_.])(?:bias{_LSTM}|biases){_COLON}$|{_NORM}beta{_COLON}$"),
    (Role.WEIGHT, rf"(?:^|[/_.])weight(?:_g|_v|_orig|{_LSTM}){_COLON}$|/weights{_COLON}$"),
    (Role.WEIGHT, rf"/(?:\w{{1,32}}_)?kernel{_COLON}$|/embeddings{_COLON}$"),
    (Role.WEIGHT, rf"{_NORM}gamma{_COLON}$|^(?:[^/]+/)?weights/"),
    # Inputs and outputs of the model.
    (Role.INPUT, rf"^(?:model_)?inputs?{_NUMBER}$|^input_ids$"),
    (Role.INPUT, r"^(?:hybrid)?sequential\d+_input_\d+$|(?:^|[_./])embedding\d*_input_\d+$"),
    (Role.INPUT, r"^[A-Z][A-Za-z0-9]*_input_\d+$"),  # PyTorch's root is named by its class
    (Role.LABEL, rf"^{_SPLIT}(?:labels?|targets?|y_true|ground_truth){_NUMBER}$"),
    (
        Role.PREDICTION,
        rf"^{_SPLIT}(?:predictions?|preds?|y_pred|y_hat|logits|outputs?){_NUMBER}$",
    ),
    (Role.PREDICTION, r"^(?:hybrid)?sequential\d+_output_\d+$|^[A-Z][A-Za-z0-9]*_output_\d+$"),
    # Numbers that a loop logs. Short words count only where nothing stands before them.
    (Role.LEARNING_RATE, rf"(?:^|[/.])(?:lr|learning_rate){_NUMBER}{_COLON}$"),
    (
        Role.METRIC,
        (
            r"(?:^|[/_.\-])(?i:accuracy|auc|auroc|auc_?pr|precision|recall|f1(?:_?score)?|iou|dice|"
            rf"bleu|rouge\w?|perplexity|(?:absolute|squared|percentage)_error){_NUMBER}$"
        ),
    ),
    (
        Role.METRIC,
        (
            rf"^{_SPLIT}(?i:acc|map|r2|mae|mse|rmse|mape|ppl|psnr|ssim|ndcg|mrr|wer|cer|top_?\d)"
            r"(?:@\d+)?$"
        ),
    ),
    (Role.LOSS, rf"(?:(?:^|[/_.\-])(?i:loss(?:es)?)|[a-z]Loss){_NUMBER}{_COLON}$"),
    (Role.LOSS, rf"(?:^|[/_])loss/(?i:value|mean)(?:_\d+)?{_COLON}$"),
)

_PATTERNS = tuple((role, re.compile(pattern)) for role, pattern in _TABLE)


# Collections of one activation's inputs or outputs, named as SageMaker's rules name theirs.
_ACTIVATION = re.compile(r"(?P<kind>relu|tanh|sigmoid|softmax|gelu)_(?P<end>input|output)s?")


def collected(collection: str) -> Named | None:
    """Return the role, and the kind if there is one, of what a collection of that name holds."""
    if found := _ACTIVATION.fullmatch(collection):
        end = found["end"]
        role = Role.ACTIVATION_INPUT if end == "input" else Role.ACTIVATION_OUTPUT
        return role, found["kind"]
    return (COLLECTION_ROLES[collection], None) if collection in COLLECTION_ROLES else None


@lru_cache(maxsize=1 << 13)  # a hook asks at every save
def named(name: str) -> Named | None:
    """Return the role that a name shows, and the kind if it shows one; None if it shows neither.

    The kind of an activation is that of its function (``relu``, ``tanh``, ``leakyrelu`` …), of
    feature importances the way they are counted (``weight``, ``gain`` …, ``shap``), of a tree the
    column (``node``, ``yes`` …).
    """
    plain = base_name(name).removeprefix("scalar/")
    for role, pattern in _PATTERNS:
        if found := pattern.search(plain):
            return None if role is None else (role, _kind(found))
    return None


def _kind(found: re.Match[str]) -> str | None:
    kind = found.groupdict().get("kind")
    return kind.replace("_", "").lower() if kind else None


def place(
    name: str, collections: Iterable[str], role: Role | None = None, kind: str | None = None
) -> tuple[Role | None, str | None]:
    """Return the role and the kind of a tensor, as far as they are known.

    What is given counts first, then the ``collections`` that hold the tensor, in their order, and
    the name last. A kind counts only where it comes with the role.
    """
    if role is not None and kind is not None:
        return role, kind
    known = [found for each in collections if (found := collected(each)) is not None]
    if (by_name := named(name)) is not None:
        known.append(by_name)
    if role is None and known:
        role = known[0][0]
    return role, kind or next((kind for of, kind in known if of is role and kind), None)
