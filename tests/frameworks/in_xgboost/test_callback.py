"""The callback in trainings of all kinds."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from tocsin import create_trial, modes
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, STOP, LocalStorage, read_index
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks import Hook
from tocsin_hooks.xgboost import TocsinCallback
from tocsin_hooks.xgboost import callback as callback_module
from tocsin_hooks.xgboost.searches import _explain

NAN = float("nan")


def value(run: Any, name: str, step: int = 0) -> Any:
    return create_trial(run).tensor(name).value(step)


def names(run: Any, **query: Any) -> list[str]:
    found: list[str] = create_trial(run).tensor_names(**query)
    return found


def asking(*collections: str, raw: bool | None = None) -> dict[str, Any]:
    config = CollectionConfig(save_raw_tensor=raw)
    found = Capture(save_interval=1, collections=dict.fromkeys(collections, config))
    return {"capture": found, "save_interval": None}


def watching(*rules: str) -> dict[str, Any]:
    from tocsin.watch import to_watch

    return {"watch": to_watch({"rules": list(rules)})}


# What is captured.


def test_a_training_is_the_same_with_it(train: Any, data: Any, tmp_path: Path) -> None:
    for parameters in ({}, {"booster": "dart", "rate_drop": 0.5}, {"subsample": 0.5, "seed": 3}):
        plain = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1, **parameters}
        alone = xgb.train(plain, data[0], 4, evals=[(data[0], "train"), (data[1], "validation")])
        options = asking("full_shap", "feature_importance", "predictions") | {"train": data[0]}
        watched = train(parameters=parameters, options=options)
        assert watched.get_dump(with_stats=True) == alone.get_dump(with_stats=True)


def test_metrics_are_those_of_the_round(train: Any, data: Any, tmp_path: Path) -> None:
    history: dict[str, Any] = {}
    parameters = {"eval_metric": ["auc", "logloss"]}
    train(5, parameters=parameters, options={"save_interval": 2}, evals_result=history)
    trial = create_trial(tmp_path / "run")
    assert trial.steps() == [0, 2, 4]
    for step in trial.steps():
        for data_set in ("train", "validation"):
            for metric in ("auc", "logloss"):
                saved = trial.tensor(f"{data_set}-{metric}").value(step)
                assert saved.tolist() == [history[data_set][metric][step]]
    assert trial.tensor_names(collection="losses") == ["train-logloss", "validation-logloss"]
    assert len(trial.tensor_names(collection="metrics")) == 4


@pytest.mark.parametrize(
    ("metric", "falls"),
    [
        ("rmse", True),
        ("mlogloss", True),
        ("error@0.3", True),
        ("tweedie-nloglik@1.5", True),
        ("gamma-deviance", True),
        ("my_loss", True),
        ("my-error", True),
        ("PyRMSLE", True),
        ("mean_absolute_error", True),
        ("neg_mean_absolute_error", False),
        ("max_error", False),
        ("auc", False),
        ("aucpr", False),
        ("ndcg@2-", False),
        ("map@3", False),
        ("pre@1", False),
        ("interval-regression-accuracy", False),
        ("profit", False),
    ],
)
def test_losses_are_metrics_that_are_known_to_fall(metric: str, falls: bool) -> None:
    from tocsin_hooks.xgboost.capture import collections_of

    assert ("losses" in collections_of(metric)) is falls
    assert "metrics" in collections_of(metric)


def test_ranking(train: Any, features: Any, tmp_path: Path) -> None:
    ranked = xgb.DMatrix(features, label=np.arange(60) % 2, qid=np.repeat(np.arange(6), 10))
    parameters = {"objective": "rank:ndcg", "eval_metric": ["ndcg@3", "map@2", "pre@1-"]}
    train(parameters=parameters, dtrain=ranked, named=[(ranked, "train")])
    assert names(tmp_path / "run", collection="metrics") == [
        "train-map@2",
        "train-ndcg@3",
        "train-pre@1-",
    ]
    assert names(tmp_path / "run", collection="losses") == []


def test_a_loss_that_functions_compute(train: Any, tmp_path: Path) -> None:
    def logistic(scores: Any, data: xgb.DMatrix) -> tuple[Any, Any]:
        likely = 1 / (1 + np.exp(-scores))
        return likely - data.get_label(), likely * (1 - likely)

    def log_loss(scores: Any, data: xgb.DMatrix) -> tuple[str, float]:
        labels = data.get_label()
        return "log_loss", float(np.mean(np.log1p(np.exp(scores)) - labels * scores))

    history: dict[str, Any] = {}
    parameters = {"objective": None, "disable_default_eval_metric": 1}
    given = {"obj": logistic, "custom_metric": log_loss, "evals_result": history}
    train(5, parameters=parameters, **given)
    assert names(tmp_path / "run", collection="losses") == [
        "train-log_loss",
        "validation-log_loss",
    ]
    saved = [value(tmp_path / "run", "train-log_loss", step).item() for step in range(5)]
    assert saved == pytest.approx(history["train"]["log_loss"])
    assert saved == sorted(saved, reverse=True)


@pytest.mark.parametrize("name", ["cost", "cost_loss"])
def test_a_run_without_a_loss_is_warned_of(name: str, train: Any, caplog: Any) -> None:
    """A custom metric may rise: only some names say that it is to fall."""
    parameters = {"disable_default_eval_metric": 1}
    train(parameters=parameters, custom_metric=lambda predictions, data: (name, 1.0))
    warned = [text for text in caplog.messages if "no loss was captured" in text]
    assert len(warned) == (name == "cost")
    assert all("eval_metric" in text and "hook" not in text for text in warned)


def test_a_custom_metric_may_be_no_number(train: Any, tmp_path: Path, verdicts: Any) -> None:
    train(6, custom_metric=lambda predictions, data: ("my_loss", NAN))
    assert np.isnan(value(tmp_path / "run", "train-my_loss", 5)).all()
    assert verdicts(tmp_path / "run", ["LossDiverging"]) == {"LossDiverging": "IssuesFound"}


def test_without_evals_the_rest_is_captured(train: Any, tmp_path: Path, caplog: Any) -> None:
    train(evals=False)
    found = names(tmp_path / "run")
    assert "predictions" in found
    assert not [name for name in found if name.startswith(("train-", "validation-"))]
    assert [r.message for r in caplog.records if "no metrics" in r.message] == [
        "no metrics are captured: pass evals to xgb.train, or eval_set to fit"
    ]


def test_hyperparameters_once(train: Any, tmp_path: Path) -> None:
    train(3, parameters={"eta": 0.05, "seed": 7, "eval_metric": ["auc", "error"]})
    run = tmp_path / "run"
    wanted = {"max_depth": 2, "eta": 0.05, "seed": 7, "objective": "binary:logistic"}
    for name, setting in (wanted | {"booster": "gbtree", "eval_metric": "auc,error"}).items():
        assert value(run, f"hyperparameters/{name}").tolist() == [setting]
        assert create_trial(run).tensor(f"hyperparameters/{name}").steps() == [0]


@pytest.mark.parametrize("form", ["matrix", "pair"])
def test_predictions_and_labels(
    train: Any, data: Any, features: Any, tmp_path: Path, form: str
) -> None:
    pair = features[40:], data[1].get_label()
    booster = train(options={"validation": data[1] if form == "matrix" else pair})
    np.testing.assert_array_equal(
        value(tmp_path / "run", "predictions", 3), booster.predict(data[1])
    )
    np.testing.assert_array_equal(value(tmp_path / "run", "labels", 3), data[1].get_label())


def logistic(margins: Any, matrix: Any) -> tuple[Any, Any]:
    shares = 1 / (1 + np.exp(-margins))
    return shares - matrix.get_label(), shares * (1 - shares)


@pytest.mark.parametrize(
    ("objective", "own", "kind"),
    [
        ("binary:logistic", None, ""),
        ("binary:logitraw", None, "scores"),
        ("survival:cox", None, "scores"),
        ("reg:squarederror", logistic, "scores"),
    ],
)
def test_predictions_in_another_unit_than_the_labels(
    train: Any, data: Any, tmp_path: Path, objective: str, own: Any, kind: str
) -> None:
    parameters = {"objective": objective, "eval_metric": "auc"}
    train(parameters=parameters, named=[(data[0], "train")], obj=own)
    storage = LocalStorage(tmp_path / "run")
    indexes = [read_index(storage, key) for key in storage.list("index/")]
    kinds = {each.kind or "" for i in indexes for each in i.entries if each.name == "predictions"}
    assert kinds == {kind}


@pytest.mark.parametrize(("weight", "kind"), [(None, None), (1, None), (5, "weighted")])
def test_labels_that_count_more_than_others(
    train: Any, tmp_path: Path, weight: int | None, kind: str | None
) -> None:
    train(parameters={"scale_pos_weight": weight} if weight else {})
    storage = LocalStorage(tmp_path / "run")
    indexes = [read_index(storage, key) for key in storage.list("index/")]
    assert {each.kind for i in indexes for each in i.entries if each.name == "labels"} == {kind}


def test_they_are_of_the_training_data_if_there_is_nothing_else(
    train: Any, data: Any, tmp_path: Path
) -> None:
    train(options={"validation": None, "train": data[0]})
    assert value(tmp_path / "run", "labels").shape == (40,)
    train(out=tmp_path / "none", options={"validation": None})
    assert "labels" not in names(tmp_path / "none")


def test_classes(train: Any, features: Any, tmp_path: Path) -> None:
    matrix = xgb.DMatrix(features, label=np.arange(60) % 3)
    parameters = {"objective": "multi:softprob", "num_class": 3}
    options = asking("trees", "full_shap", "average_shap") | {"train": matrix, "validation": matrix}
    train(2, parameters=parameters, dtrain=matrix, named=[(matrix, "train")], options=options)
    run = tmp_path / "run"
    assert value(run, "predictions", 1).shape == (60, 3)
    assert set(value(run, "trees/Tree", 1).tolist()) == {3, 4, 5}
    shap = value(run, "full_shap/f0", 1)
    assert shap.shape == (60, 3, 5)
    assert value(run, "average_shap/f2", 1) == pytest.approx(shap[..., 2].mean(), abs=1e-6)


@pytest.mark.parametrize("booster", ["gblinear", "dart", "gbtree"])
def test_boosters(train: Any, tmp_path: Path, booster: str, caplog: Any) -> None:
    train(3, parameters={"booster": booster, "eval_metric": "logloss"})
    found = {name.partition("/")[0] for name in names(tmp_path / "run")}
    of_trees = set() if booster == "gblinear" else {"trees", "feature_importance"}
    always = {
        "predictions",
        "labels",
        "train-logloss",
        "validation-logloss",
        "hyperparameters",
        "columns",
    }
    assert found == always | of_trees
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_features_that_are_never_split_by_have_no_weight(
    train: Any, features: Any, tmp_path: Path
) -> None:
    constant = features.copy()
    constant[:, 2] = 1
    matrix = xgb.DMatrix(constant, label=constant[:, 0] > 0, feature_names=["a", "b", "c", "d"])
    train(dtrain=matrix, named=[(matrix, "train")], options={"validation": None})
    run = tmp_path / "run"
    assert value(run, "feature_importance/weight/c").tolist() == [0]
    assert "feature_importance/weight/a" in names(run)
    assert "feature_importance/gain/a" not in names(run)  # no rule is for it


def test_categories_of_a_table(train: Any, tmp_path: Path) -> None:
    import pandas as pd

    table = pd.DataFrame({"x": np.arange(60.0), "c": pd.Categorical(list("abc") * 20)})
    labels = (table["c"] == "b").astype(int)
    matrix = xgb.DMatrix(table, label=labels, enable_categorical=True)
    options = {"validation": (table, labels)}
    train(2, dtrain=matrix, named=[(matrix, "train")], options=options)
    assert value(tmp_path / "run", "trees/Category")[0] == "1"
    assert value(tmp_path / "run", "predictions").shape == (60,)


# Only what is wanted.


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Booster.predict has been asked for."""
    calls: list[dict[str, Any]] = []
    predict = xgb.Booster.predict

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(options)
        return predict(self, *arguments, **options)

    monkeypatch.setattr(xgb.Booster, "predict", counted)
    return calls


@pytest.mark.parametrize(
    ("options", "calls", "parts"),
    [
        (watching("LossNotDecreasing"), 0, set()),
        (watching("TreeDepth"), 0, {"trees"}),
        (watching("FeatureImportanceOverweight"), 0, {"feature_importance"}),
        (watching("Confusion"), 3, {"predictions", "labels"}),
        (watching("TreeDepth") | {"shap": True}, 3, {"trees", "average_shap"}),
        (watching("TreeDepth") | asking("predictions"), 3, {"trees", "predictions"}),
    ],
)
def test_what_nobody_wants_is_not_computed(
    train: Any,
    data: Any,
    tmp_path: Path,
    predicted: list[Any],
    options: dict[str, Any],
    calls: int,
    parts: set[str],
) -> None:
    train(3, options={"train": data[0], **options})
    assert len(predicted) == calls
    found = {name.partition("/")[0] for name in names(tmp_path / "run")}
    assert found == parts | {"train-logloss", "validation-logloss", "hyperparameters"}


def test_nothing_is_computed_in_steps_that_are_not_saved(train: Any, predicted: list[Any]) -> None:
    train(9, options={"save_interval": 4})
    assert len(predicted) == 3


def test_values_of_large_data_are_kept_where_that_is_configured(train: Any, tmp_path: Path) -> None:
    large = np.zeros((300_000, 1), np.float32)
    matrix = xgb.DMatrix(large, label=large[:, 0])
    train(1, dtrain=matrix, named=[], options={"validation": matrix})
    assert create_trial(tmp_path / "run").tensor("labels").reduction_value(0, "max") == 0
    with pytest.raises(Exception, match="labels"):
        value(tmp_path / "run", "labels")
    options = asking("labels", raw=True) | {"validation": matrix}
    train(1, dtrain=matrix, named=[], out=tmp_path / "asked", options=options)
    assert value(tmp_path / "asked", "labels").shape == (300_000,)


def test_shap_values_need_data(train: Any, tmp_path: Path, caplog: Any) -> None:
    train(3, options={"shap": True, "validation": None})
    said = [r.message for r in caplog.records if "SHAP" in r.message]
    assert said == ["no SHAP values: pass their data to TocsinCallback(…, train=…)"]


# Beginning, going on, ending.


def test_a_round_is_a_step_of_mode_train(train: Any, tmp_path: Path) -> None:
    train(3)
    trial = create_trial(tmp_path / "run")
    assert trial.steps(mode=modes.TRAIN) == trial.steps(mode=modes.GLOBAL) == [0, 1, 2]
    assert (tmp_path / "run" / END_MARKER).exists()


def test_a_continued_training_counts_on(train: Any, tmp_path: Path) -> None:
    first = train(3)
    train(2, xgb_model=first, out=tmp_path / "next")
    storage = LocalStorage(tmp_path / "next")
    found = [read_index(storage, item) for item in storage.list("index/")]
    assert [(index.step, index.mode, index.mode_step) for index in found] == [
        (3, Mode.TRAIN, 3),
        (4, Mode.TRAIN, 4),
    ]
    assert {index.meta.resumed_from for index in found if index.meta} == {2}
    assert value(tmp_path / "next", "trees/Tree", 4)[0] == 4


@pytest.mark.parametrize("where", ["before", "after"])
def test_beside_early_stopping(train: Any, tmp_path: Path, where: str) -> None:
    stopping = xgb.callback.EarlyStopping(rounds=2, save_best=True)
    never_better = {"custom_metric": lambda predictions, data: ("constant", 1.0)}
    if where == "before":
        train(50, before=[stopping], **never_better)
    else:
        train(50, early_stopping_rounds=2, **never_better)
    # Rounds 1 and 2 are no better. XGBoost calls no callback behind the one that stops, and
    # before version 3 nobody knows which that is.
    assert create_trial(tmp_path / "run").steps() in ([0, 1], [0, 1, 2])
    assert (tmp_path / "run" / END_MARKER).exists()


def test_each_round_is_saved_where_nobody_says_otherwise(train: Any, tmp_path: Path) -> None:
    train(4, options={"save_interval": None})
    assert create_trial(tmp_path / "run").steps() == [0, 1, 2, 3]


def test_a_request_ends_it(train: Any, tmp_path: Path) -> None:
    class Waiting(xgb.callback.TrainingCallback):
        """Asks for a stop after round 2, and waits until the hook has seen that."""

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            if epoch == 2:
                request = {"requested_at": "2999-01-01T00:00:00Z", "rule": "R", "reason": "why"}
                LocalStorage(tmp_path / "run").write(STOP, json.dumps(request).encode())
                while not callback.hook.should_stop:
                    pass
            return False

    callback = TocsinCallback(
        tmp_path / "run", save_interval=1, max_overhead=None, poll_interval=0.01
    )
    booster = train(50, callback=callback, before=[Waiting()])
    assert booster.num_boosted_rounds() == 3
    assert (tmp_path / "run" / END_MARKER).exists()


def test_cross_validation_gives_the_means_of_metrics_and_the_trees_of_a_fold(
    data: Any, tmp_path: Path, caplog: Any
) -> None:
    callback = TocsinCallback(
        tmp_path / "run", validation=data[1], save_interval=1, max_overhead=None
    )
    table = xgb.cv(
        {"objective": "binary:logistic", "nthread": 1}, data[0], 3, nfold=2, callbacks=[callback]
    )
    saved = names(tmp_path / "run")
    assert {"test-logloss", "train-logloss", "hyperparameters/eta"} <= {*saved}
    for of_a_fold in ("feature_importance/weight/", "trees/"):
        assert any(name.startswith(of_a_fold) for name in saved)
    assert "predictions" not in saved
    for step, mean in enumerate(table["test-logloss-mean"]):
        assert value(tmp_path / "run", "test-logloss", step).tolist() == [mean]
    assert [r.message for r in caplog.records if "xgb.cv" in r.message] == [
        "xgb.cv: metrics are captured, as means over the folds, and the first fold's trees"
    ]


def test_a_hook_that_is_there_is_used_and_left_open(train: Any, tmp_path: Path) -> None:
    hook = Hook(tmp_path / "run", save_interval=1, max_overhead=None)
    with hook.step(modes.EVAL):
        hook.save("mine", 1.0)
    train(2, callback=TocsinCallback(hook))
    assert not (tmp_path / "run" / END_MARKER).exists()
    hook.close()
    trial = create_trial(tmp_path / "run")
    assert (trial.steps(), trial.steps(mode=modes.TRAIN)) == ([0, 1, 2], [0, 1])


def test_a_callback_may_be_used_again(train: Any, tmp_path: Path) -> None:
    def failing(predictions: Any, matrix: Any) -> Any:
        raise KeyError("mine")

    callback = TocsinCallback(tmp_path / "run", save_interval=1, max_overhead=None)
    with pytest.raises(KeyError, match="mine"):
        train(2, callback=callback, obj=failing)
    train(2, callback=callback)
    assert create_trial(tmp_path / "run").steps() == [0, 1]
    assert (tmp_path / "run" / END_MARKER).exists()


# The scikit-learn interface.


def classifier(run: Path, **options: Any) -> Any:
    callback = TocsinCallback(run, save_interval=1, max_overhead=None, **options)
    return xgb.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1, callbacks=[callback])


def test_an_estimator(features: Any, tmp_path: Path) -> None:
    labels = (features[:, 0] > 0).astype(int)
    pair = features[40:], labels[40:]
    classifier(tmp_path / "run", validation=pair).fit(
        features[:40], labels[:40], eval_set=[(features[:40], labels[:40]), pair], verbose=False
    )
    assert names(tmp_path / "run", collection="losses") == [
        "validation_0-logloss",
        "validation_1-logloss",
    ]
    assert value(tmp_path / "run", "predictions", 2).shape == (20,)


def test_the_set_that_is_trained_on_is_known_whatever_its_name(
    features: Any, tmp_path: Path
) -> None:
    x, y = features, (features[:, 0] > 0).astype(int)
    classifier(tmp_path / "estimator").fit(x, y, eval_set=[(x, y), (x[:40], y[:40])], verbose=False)
    same, other = xgb.DMatrix(x, y), xgb.DMatrix(x[:40], y[:40])
    sets = [(other, "mine"), (same, "copy"), (xgb.DMatrix(x, 1 - y), "others")]
    callback = TocsinCallback(tmp_path / "train")
    xgb.train({}, xgb.DMatrix(x, y), 3, evals=sets, callbacks=[callback], verbose_eval=False)
    assert kinds(tmp_path / "estimator") == {
        "validation_0-logloss": "trained",
        "validation_1-logloss": "held out",
    }
    assert kinds(tmp_path / "train") == {
        "mine-rmse": "held out",
        "copy-rmse": "trained",
        "others-rmse": "held out",
    }


def kinds(run: Path) -> dict[str, str | None]:
    """Of the metrics of the last round."""
    storage = LocalStorage(run)
    found = read_index(storage, next(iter(storage.list("index/"))))
    return {e.name: e.kind for e in found.entries if e.name.endswith(("-logloss", "-rmse"))}


def test_estimators_are_cloned_and_pickled_with_it(features: Any, tmp_path: Path) -> None:
    labels = (features[:, 0] > 0).astype(int)
    made = classifier(tmp_path / "run", validation=xgb.DMatrix(features, label=labels))
    made.fit(features, labels)
    for copied in (clone(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):  # noqa: S301 - our own
        copied.fit(features, labels)
        assert copied.callbacks[0].hook.stats.saved == 3


def test_of_a_search_the_refit_is_captured(
    features: Any, tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    _explain.cache_clear()
    hooks: list[Hook] = []
    made = partial(_remembered, hooks, callback_module._hook)
    monkeypatch.setattr(callback_module, "_hook", made)
    labels, estimator = (features[:, 0] > 0).astype(int), classifier(tmp_path / "run")
    search = GridSearchCV(estimator, {"max_depth": [1, 2]}, cv=3).fit(features, labels)
    assert [search.best_estimator_.callbacks[0].hook] == hooks
    assert (hooks[0].stats.saved, hooks[0].stats.errors) == (3, 0)
    said = [record for record in caplog.records if "search or cross-validation" in record.message]
    assert len(said) == 1


def _remembered(hooks: list[Hook], make: Any, *arguments: Any) -> Hook:
    hooks.append(make(*arguments))
    return hooks[-1]


def test_fits_that_are_scored_are_not_captured(features: Any, tmp_path: Path, caplog: Any) -> None:
    _explain.cache_clear()
    labels, made = (features[:, 0] > 0).astype(int), classifier(tmp_path / "run")
    cross_val_score(made, features, labels, cv=3)
    cross_val_predict(made, features, labels, cv=3)
    assert not (tmp_path / "run").exists()
    said = [record for record in caplog.records if "cross-validation" in record.message]
    assert len(said) == 1


# Trouble.


def test_an_option_that_there_is_not_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="sav_interval"):
        TocsinCallback("run", sav_interval=1)
    with pytest.raises(FileNotFoundError, match=r"no-such-file\.yaml"):
        TocsinCallback("run", watch="no-such-file.yaml")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"validation": "test.csv"}, "train and validation must be a DMatrix or (X, y)"),
        ({"validation": (np.zeros((5, 9)), np.zeros(5))}, "predictions of the booster are not"),
        ({"save_interval": 0}, "save_interval"),
    ],
)
def test_what_cannot_be_captured_is_said_once_and_left_out(
    train: Any, tmp_path: Path, caplog: Any, options: dict[str, Any], said: str
) -> None:
    assert train(5, options=options).num_boosted_rounds() == 5
    assert len([r for r in caplog.records if said in r.message]) == 1
    if "validation" in options:
        assert create_trial(tmp_path / "run").steps() == [0, 1, 2, 3, 4]
        assert "trees/Node" in names(tmp_path / "run")


def test_a_run_that_cannot_be_written_leaves_the_training_alone(train: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert train(5, out=tmp_path / "file" / "run").num_boosted_rounds() == 5


@pytest.mark.parametrize("switch", ["TOCSIN", "USE_SMDEBUG"])
def test_it_is_switched_off(train: Any, tmp_path: Path, monkeypatch: Any, switch: str) -> None:
    monkeypatch.setenv(switch, "0")
    assert train(2).num_boosted_rounds() == 2
    assert not (tmp_path / "run").exists()


def test_only_xgboost_is_imported() -> None:
    code = (
        "import sys, xgboost; before = set(sys.modules); import tocsin_hooks.xgboost\n"
        "added = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(added & {'pandas', 'sklearn', 'torch', 'boto3', 'mxnet', 'typer'}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == []


# What the data shows.


def with_label(column: str) -> tuple[Any, Any]:
    """A table of four columns, two of them with gaps, and numbers to predict."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((300, 4))
    y = x[:, 0] + draw.standard_normal(300)
    x[::7, 2:] = np.nan
    if column == "label":
        x[:, 1] = 10 * y + 3
    elif column == "with gaps":
        x[:, 2] = np.where(np.isnan(x[:, 2]), np.nan, y)
    return x, y


@pytest.mark.parametrize(
    ("column", "matrix", "expected"),
    [
        ("none", xgb.DMatrix, False),
        ("label", xgb.DMatrix, True),
        ("with gaps", xgb.DMatrix, False),  # who knows why
        ("label", xgb.QuantileDMatrix, False),  # its values are not known
    ],
)
def test_a_label_among_the_columns(
    column: str, matrix: Any, expected: bool, tmp_path: Path
) -> None:
    callback = TocsinCallback(tmp_path, save_interval=1)
    x, y = with_label(column)
    xgb.train({"nthread": 1}, matrix(x, label=y), 3, callbacks=[callback])
    assert callback.hook.stats.errors == 0
    found = [name for name in names(tmp_path) if name.startswith("contract/")]
    assert [name.rpartition(":")[0] for name in found] == [
        "contract/label_among_inputs/test_callback.py"
    ] * expected


@pytest.mark.parametrize(
    ("parameters", "rounds", "expected"),
    [
        ({"gamma": 1e9}, 12, True),
        ({"min_child_weight": 1e9, "objective": "reg:absoluteerror"}, 12, True),
        ({"gamma": 1e9}, 9, False),
        ({"max_depth": 1}, 12, False),
        ({"booster": "gblinear"}, 12, False),
    ],
)
def test_trees_without_splits(
    parameters: dict[str, Any], rounds: int, expected: bool, tmp_path: Path
) -> None:
    callback = TocsinCallback(tmp_path, save_interval=1)
    x, y = with_label("none")
    xgb.train({"nthread": 1, **parameters}, xgb.DMatrix(x, label=y), rounds, callbacks=[callback])
    assert callback.hook.stats.errors == 0
    found = [name for name in names(tmp_path) if name.startswith("contract/")]
    assert [name.split("/")[1] for name in found] == ["trees_without_splits"] * expected


@pytest.mark.parametrize(("planned", "expected"), [(120, False), (400, True)])
def test_trees_that_have_splits_later(planned: int, expected: bool, tmp_path: Path) -> None:
    """A tenth of the rounds must have no split."""

    def late(predictions: Any, data: Any) -> Any:
        rounds.append(1)
        weight = 1.0 if len(rounds) > 30 else 1e-9
        return weight * (predictions - data.get_label()), np.full(len(predictions), weight)

    rounds: list[int] = []
    callback = TocsinCallback(tmp_path, save_interval=1)
    x, y = with_label("none")
    given = {"nthread": 1, "gamma": 1e-3, "lambda": 0, "min_child_weight": 0}
    xgb.train(given, xgb.DMatrix(x, label=y), planned, obj=late, callbacks=[callback])
    found = [name for name in names(tmp_path) if name.startswith("contract/trees")]
    assert bool(found) is not expected


@pytest.mark.parametrize("factor", [1, 255])
@pytest.mark.parametrize("estimator", [False, True])
def test_columns_of_evaluated_data(
    factor: int, estimator: bool, verdicts: Any, tmp_path: Path
) -> None:
    draw = np.random.default_rng(1)
    x, held = draw.normal(size=(400, 6)), draw.normal(size=(200, 6))
    x[::7, 2] = NAN
    y, held_y = x[:, 0] + x[:, 1] ** 2, held[:, 0] + held[:, 1] ** 2
    held *= factor
    callback = TocsinCallback(tmp_path / "run")
    if estimator:
        model = xgb.XGBRegressor(n_estimators=40, n_jobs=1, callbacks=[callback])
        model.fit(x, y, eval_set=[(x, y), (held, held_y)], verbose=False)
        saved = ["columns/validation_0", "columns/validation_1"]
    else:
        data, other = xgb.DMatrix(x, y), xgb.DMatrix(held, held_y)
        sets = [(other, "mine"), (data, "train")]
        xgb.train({"nthread": 1}, data, 40, sets, callbacks=[callback], verbose_eval=False)
        saved = ["columns/mine", "columns/train"]
    assert callback.hook.stats.errors == 0
    assert names(tmp_path / "run", collection="columns") == saved
    assert value(tmp_path / "run", saved[0]).shape == (6, 4)
    expected = "NoIssuesFound" if factor == 1 else "IssuesFound"
    assert verdicts(tmp_path / "run")["TrainEvalInputs"] == expected


@pytest.mark.parametrize(
    ("parameters", "options", "expected"),
    [
        ({"n_estimators": 300}, {}, True),
        ({"n_estimators": 300}, {"num_boost_round": 5}, False),
        ({"early_stopping_rounds": 3}, {"num_boost_round": 5}, True),
        ({"early_stopping_rounds": 3}, {"early_stopping_rounds": 3}, False),
        ({"max_depth": 1}, {}, False),
    ],
)
def test_parameters_of_estimators(
    parameters: dict[str, Any], options: dict[str, Any], expected: bool, tmp_path: Path
) -> None:
    callback = TocsinCallback(tmp_path, save_interval=1)
    x, y = with_label("none")
    data = xgb.DMatrix(x, label=y)
    given = {"evals": [(data, "train")], "callbacks": [callback], **options}
    xgb.train({"nthread": 1, **parameters}, data, **given)
    assert callback.hook.stats.errors == 0
    found = [name for name in names(tmp_path) if name.startswith("contract/")]
    assert [name.split("/")[1] for name in found] == ["xgboost_parameters_ignored"] * expected


@pytest.mark.parametrize(
    ("parameters", "rounds", "expected"),
    [
        ({"eta": 0.001}, 12, True),
        ({"learning_rate": "0.02"}, 12, True),
        ({"eta": 0.03}, 12, False),
        ({"eta": 0.001}, 9, False),  # a look at a few
        ({}, 12, False),
    ],
)
def test_rounds_that_hardly_move(
    parameters: dict[str, Any], rounds: int, expected: bool, tmp_path: Path
) -> None:
    callback = TocsinCallback(tmp_path, save_interval=1)
    x, y = with_label("none")
    xgb.train({"nthread": 1, **parameters}, xgb.DMatrix(x, label=y), rounds, callbacks=[callback])
    assert callback.hook.stats.errors == 0
    found = [name for name in names(tmp_path) if name.startswith("contract/")]
    assert [name.split("/")[1] for name in found] == [
        "learning_rate_times_rounds_too_small"
    ] * expected


def evaluated(apart: float = 0.0) -> tuple[Any, Any]:
    """200 rows to train and 100 to evaluate, whose labels are larger by ``apart``."""
    x = np.random.default_rng(0).standard_normal((300, 4))
    y = x[:, 0] + x[:, 1] * x[:, 2]
    return xgb.DMatrix(x[:200], label=y[:200]), xgb.DMatrix(x[200:], label=y[200:] + apart)


@pytest.mark.parametrize(
    ("parameters", "rounds", "expected"),
    [
        ({"eta": 0.011}, 30, True),
        ({"lambda": 1e4}, 30, True),
        ({"max_delta_step": 0.01}, 30, True),
        ({"max_delta_step": 0.01}, 9, False),
        ({"max_delta_step": 0.01, "eval_metric": "error"}, 30, False),
        ({"eta": 0.1}, 30, False),
        ({}, 30, False),
    ],
)
def test_a_loss_that_falls_to_the_end(
    parameters: dict[str, Any], rounds: int, expected: bool, tmp_path: Path
) -> None:
    """It is said in the last round, which is saved whatever the interval."""
    callback = TocsinCallback(tmp_path, save_interval=7)
    data, held = evaluated()
    sets = [(data, "train"), (held, "held")]
    given = {"nthread": 1, **parameters}
    xgb.train(given, data, rounds, sets, callbacks=[callback], verbose_eval=False)
    assert callback.hook.stats.errors == 0
    found = [name for name in names(tmp_path) if name.startswith("contract/")]
    assert [name.split("/")[1] for name in found] == ["rounds_too_few"] * expected
    assert rounds - 1 in create_trial(str(tmp_path)).steps()


def test_a_continued_training_may_fall_slowly(tmp_path: Path) -> None:
    data, held = evaluated()
    given = {"nthread": 1, "eta": 0.011}
    before = xgb.train({"nthread": 1, "eta": 0.01}, data, 40)
    callback = TocsinCallback(tmp_path, save_interval=1)
    sets, options = [(held, "held")], {"callbacks": [callback], "verbose_eval": False}
    xgb.train(given, data, 30, sets, xgb_model=before, **options)
    assert callback.hook.stats.errors == 0
    assert not [name for name in names(tmp_path) if name.startswith("contract/")]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"min_child_weight": 80}, True),
        ({"min_child_weight": 60}, False),  # three leaves
        ({"min_child_weight": 60, "subsample": 0.8}, True),
        ({"min_child_weight": 80, "max_depth": 2}, False),
        ({"min_child_weight": 80, "max_depth": 0}, True),
        ({"min_child_weight": "80", "objective": "reg:squarederror"}, True),
        ({"min_child_weight": 80, "objective": "reg:absoluteerror"}, False),
        ({"min_child_weight": 80, "booster": "gblinear"}, False),
    ],
)
def test_a_child_of_most_rows(parameters: dict[str, Any], expected: bool, tmp_path: Path) -> None:
    callback = TocsinCallback(tmp_path, save_interval=1)
    data, _ = evaluated()
    xgb.train({"nthread": 1, **parameters}, data, 3, callbacks=[callback])
    assert callback.hook.stats.errors == 0
    found = [name for name in names(tmp_path) if name.startswith("contract/")]
    assert [name.split("/")[1] for name in found] == ["min_child_weight_too_large"] * expected


@pytest.mark.parametrize(
    ("apart", "objective", "expected"),
    [
        (1000.0, "reg:squarederror", True),
        (-1000.0, "reg:squarederror", True),
        (1.0, "reg:squarederror", False),
        (1000.0, "survival:cox", False),
    ],
)
def test_labels_beyond_those_of_training(
    apart: float, objective: str, expected: bool, tmp_path: Path
) -> None:
    callback = TocsinCallback(tmp_path, save_interval=1)
    data, held = evaluated(apart=apart)
    given = {"nthread": 1, "objective": objective}
    sets = [(data, "train"), (held, "held")]
    xgb.train(given, data, 3, sets, callbacks=[callback], verbose_eval=False)
    assert callback.hook.stats.errors == 0
    found = [name for name in names(tmp_path) if name.startswith("contract/")]
    assert [name.split("/")[1] for name in found] == ["labels_outside_training_range"] * expected


def test_a_part_of_the_rows_is_not_judged(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tocsin_hooks.xgboost.given._is_alone", lambda: False)
    callback = TocsinCallback(tmp_path, save_interval=1)
    data, held = evaluated(apart=1000.0)
    given = {"nthread": 1, "min_child_weight": 80}
    xgb.train(given, data, 3, [(held, "held")], callbacks=[callback], verbose_eval=False)
    assert callback.hook.stats.errors == 0
    assert not [name for name in names(tmp_path) if name.startswith("contract/")]


def test_a_ranking_is_looked_at_as_well(tmp_path: Path) -> None:
    x, _ = with_label("label")
    ranks = xgb.DMatrix(x, label=np.arange(300) % 5, qid=np.arange(300) // 10)
    callback = TocsinCallback(tmp_path, save_interval=1)
    xgb.train({"nthread": 1, "objective": "rank:ndcg"}, ranks, 3, callbacks=[callback])
    assert callback.hook.stats.errors == 0
    assert not [name for name in names(tmp_path) if name.startswith("contract/")]
