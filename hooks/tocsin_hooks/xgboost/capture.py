"""One boosting round as it is captured, in the names that smdebug gave."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray
from tocsin.model import SCORES, WEIGHTED, Role
from tocsin.tensors import named

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.looks import contract_name
from tocsin_hooks.plan import CapturePlan
from tocsin_hooks.script_line import script_line
from tocsin_hooks.xgboost.columns import save_columns
from tocsin_hooks.xgboost.given import Given
from tocsin_hooks.xgboost.model import (
    IMPORTANCE_TYPES,
    configuration,
    has_scores,
    has_trees,
    hyperparameters,
    importances,
)
from tocsin_hooks.xgboost.trees import COLUMNS, tree_columns

_log = logging.getLogger("tocsin")

_SEVERAL_ROUNDS = 10
# Of a function of the script's, as PyRMSLE or mean_absolute_error. Scorers turn the sign, and the
# largest error and that of calibration may rise as a model gets better.
_OWN_LOSS = re.compile(r"(?i)^(?!neg|max|calib)[\w-]*(?:error|rmsle|mse|mae|mape|nll|deviance)$")
_MOST_KEPT = 1 << 20  # bytes of predictions or labels that are kept without being asked for

Evaluations = Mapping[str, Mapping[str, list[Any]]]
"""By data set and metric the values of all rounds; of xgb.cv pairs of mean and deviation."""


class Rounds:
    """Captures the rounds of one training. Whatever is expensive is computed if it is wanted.

    Parameters
    ----------
    hook: has a current step that is saved, whenever ``capture`` is called.
    train: DMatrix for SHAP values; None: they are of ``validation``.
    validation: DMatrix for predictions and labels; None: they are of ``train``.
    given: what else is known of the training.
    shap: whether to save average SHAP values though the configuration does not ask for them.
    """

    def __init__(
        self, hook: Hook, train: Any, validation: Any, given: Given, *, shap: bool
    ) -> None:
        self._hook = hook
        self._given = given
        self._explained = validation if train is None else train
        self._predicted = train if validation is None else validation
        self._shap = shap
        self._known = False
        self._trees = False
        self._kind: str | None = None  # of predictions
        self._counted = False  # whether there are splits
        self._logged = set[str]()

    def capture(self, model: Any, evaluations: Evaluations) -> None:
        """Capture the round that ``model``, a Booster or what xgb.cv has of them, just ended."""
        self._metrics(evaluations)
        if hasattr(model, "cvfolds"):
            self._log_once(
                "xgb.cv: metrics are captured, as means over the folds, and the first fold's trees"
            )
            model = model.cvfolds[0].bst
            self._predicted = self._explained = None  # which rows the fold has seen is not known
        if not self._known:
            self._known = True
            self._try("hyperparameters", self._look_up, model)
            self._try("columns", save_columns, self._hook, self._given)
        if self._predicted is not None:
            self._try("predictions", self._predictions, model, self._predicted)
        if self._trees:
            self._try("feature importances", self._importances, model)
            self._try("trees", self._columns, model)
            self._try("splits", self._splits, model)
        self._try("SHAP values", self._contributions, model)

    def _metrics(self, evaluations: Evaluations) -> None:
        if not evaluations:
            self._log_once("no metrics are captured: pass evals to xgb.train, or eval_set to fit")
        for data, metrics in evaluations.items():
            for metric, values in metrics.items():
                value = values[-1][0] if isinstance(values[-1], tuple) else values[-1]
                self._hook.save(
                    f"{data}-{metric}",
                    float(value),
                    collections_of(metric),
                    kind=self._given.kinds.get(data),
                )

    def _look_up(self, model: Any) -> None:
        learner = configuration(model)
        self._trees = has_trees(learner)
        if self._given.own_objective or has_scores(learner):
            self._kind = SCORES
        for name, value in hyperparameters(learner).items():
            self._hook.save(f"hyperparameters/{name}", value, "hyperparameters")

    def _predictions(self, model: Any, data: Any) -> None:
        plan = self._hook.plan("predictions", "predictions", kind=self._kind)
        if plan is not None:
            self._keep(plan, model.predict(data))
        kind = WEIGHTED if self._given.weighted else None
        if (plan := self._hook.plan("labels", "labels", kind=kind)) is not None:
            labels = data.get_label()
            if labels.size:
                self._keep(plan, labels)

    def _keep(self, plan: CapturePlan, values: NDArray[Any]) -> None:
        """Capture values as they are, as smdebug did, unless they are many."""
        raw = True if plan.raw is None and values.nbytes <= _MOST_KEPT else plan.raw
        self._hook.capture(replace(plan, raw=raw), values)

    def _importances(self, model: Any) -> None:
        collection = "feature_importance"
        for kind in IMPORTANCE_TYPES:
            if self._hook.wants(f"{collection}/{kind}/f0", collection):
                for feature, share in importances(model, kind).items():
                    self._hook.save(f"{collection}/{kind}/{feature}", share, collection)

    def _columns(self, model: Any) -> None:
        if any(self._hook.wants(f"trees/{name}", "trees") for name in COLUMNS):
            columns = tree_columns(model, model.num_boosted_rounds())
            for name, column in columns.items():
                self._hook.save(f"trees/{name}", column, "trees", raw=True)

    def _splits(self, model: Any) -> None:
        """Save once that no tree has a split, if that is so.

        At a low rate the first trees of some losses have none, so a tenth of the rounds must.
        """
        several = max(_SEVERAL_ROUNDS, self._given.planned // 10)
        if self._counted or model.num_boosted_rounds() < several:
            return
        self._counted = True
        name = contract_name("trees_without_splits", script_line())
        plan = self._hook.plan(name.name, name.collections, role=name.role)
        if plan is not None and not model.get_score(importance_type="weight"):
            self._hook.capture(plan, 1.0)

    def _contributions(self, model: Any) -> None:
        # Rules read average SHAP values if there are any, but are not worth computing them. None
        # of them reads that of the bias: it is wanted where the configuration asks for them.
        average = self._shap or self._hook.wants("average_shap/bias", "average_shap")
        full = self._hook.wants("full_shap/bias", "full_shap")
        if not (average or full):
            return
        if self._explained is None:
            self._log_once("no SHAP values: pass their data to TocsinCallback(…, train=…)")
            return
        values = model.predict(self._explained, pred_contribs=True)
        means = values.mean(axis=tuple(range(values.ndim - 1)))
        names = model.feature_names or [f"f{index}" for index in range(len(means) - 1)]
        for name, mean in zip(names, means, strict=False):  # the last one is of no feature
            if average:
                self._hook.save(f"average_shap/{name}", mean, "average_shap")
            if full:
                self._hook.save(f"full_shap/{name}", values, "full_shap", raw=True)

    def _try(self, what: str, part: Callable[..., None], *arguments: Any) -> None:
        with Guard(self._hook.trouble, "%s of the booster are not captured", what):
            part(*arguments)

    def _log_once(self, message: str) -> None:
        """Log each message once: what is so now is so in the next round, too."""
        if message not in self._logged:
            self._logged.add(message)
            _log.warning(message)


def collections_of(metric: str) -> tuple[str, ...]:
    """Return the collections of a metric: losses, too, if it is known to fall as a model gets
    better."""
    known = named(f"train-{metric}")
    falls = known is not None and known[0] is Role.LOSS
    return ("losses", "metrics") if falls or _OWN_LOSS.search(metric) else ("metrics",)
