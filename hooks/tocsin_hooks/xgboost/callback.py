"""The callback of ``xgb.train`` and of the scikit-learn interface."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb
from tocsin.model import Mode
from tocsin.tensors import Storage
from xgboost import collective

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard, log_error
from tocsin_hooks.settings import given_watch
from tocsin_hooks.xgboost.capture import Evaluations, Rounds
from tocsin_hooks.xgboost.curves import falls_to_the_end
from tocsin_hooks.xgboost.given import Given, find_given, save_contract, save_contracts
from tocsin_hooks.xgboost.searches import is_compared

_WITHOUT_LOSS = (
    "pass evals or eval_set, and an eval_metric that falls, such as rmse or logloss; the name of a "
    "metric of your own must end in loss or error"
)


class TocsinCallback(xgb.callback.TrainingCallback):
    """Captures a training of XGBoost, and ends it after a stop request.

    A boosting round is a step of mode TRAIN. Tensors have smdebug's names: metrics
    (``train-logloss``), ``predictions``, ``labels``, ``feature_importance/<type>/<feature>``,
    ``trees/<column>``, ``hyperparameters/<name>``, ``average_shap/<feature>``,
    ``full_shap/<feature>``. Only tensors that a rule or the configuration needs are computed.

    Each training makes a hook when it begins and closes it when it ends. A training that continues
    a model (``xgb_model``) continues its round numbers. Every rank of a distributed training needs
    the callback: each is a worker, and they agree on when to stop. In a scikit-learn search, only
    the refit is captured, because fits on parts of the data would overwrite each other.

    Parameters
    ----------
    out: the run: a folder, ``s3://bucket/prefix``, a Storage, or an existing Hook, which stays
        open. None: the path in SageMaker's ``debughookconfig.json``, else ``TOCSIN_RUN``.
    train, validation: DMatrix or (X, y). ``predictions`` and ``labels`` come from the validation
        data, SHAP values from the training data; if only one is given, it is used for both. A
        DMatrix that is also trained on or evaluated is predicted faster.
    shap: save the average SHAP value of each feature. On all training data this may take longer
        than the training: pass a sample as ``train``.
    options: options of ``Hook``.

    Raises TypeError for an unknown option, and nothing else.

    Example
    -------
    >>> callback = TocsinCallback("s3://bucket/jobs/j1", validation=test)
    >>> xgb.train(params, train, 100, [(train, "train"), (test, "test")], callbacks=[callback])
    """

    def __init__(
        self,
        out: str | Path | Storage | Hook | None = None,
        *,
        train: Any = None,
        validation: Any = None,
        shap: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        inspect.signature(Hook).bind(out, **options)
        given_watch(options.get("watch"))
        self._arguments: dict[str, Any] = {
            "out": out,
            "train": train,
            "validation": validation,
            "shap": shap,
            **options,
        }
        self._hook: Hook | None = None
        self._rounds: Rounds | None = None
        self._given = Given()
        self._looked = False  # at what it is given

    @property
    def hook(self) -> Hook | None:
        """The hook of the latest training: its ``stats``, its ``position``."""
        return self._hook

    def before_training(self, model: Any) -> Any:
        with Guard(self._off, "nothing is captured"):
            self._close(finished=False)  # an earlier training that failed
            self._hook = None
            if not is_compared():
                self._start(model)
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Evaluations) -> bool:
        hook, rounds = self._hook, self._rounds
        if hook is None or rounds is None:
            return _agreed(stop=False)
        with Guard(hook.trouble, "round %d is not captured", epoch):
            given = self._given
            last = epoch + 1 == given.planned  # is saved, whatever the interval
            if hook.begin(Mode.TRAIN, turn=0 if last else None):
                with hook.measured():
                    rounds.capture(model, evals_log)
                    if not self._looked:
                        self._looked = True
                        save_contracts(hook)
                    if last and falls_to_the_end(evals_log, given):
                        save_contract(hook, "rounds_too_few")
            hook.end()
        return _agreed(hook.should_stop)

    def after_training(self, model: Any) -> Any:
        with Guard(log_error, "the run was not closed"):
            self._close(finished=None)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """For an estimator that is pickled with its callbacks: no data, no hook."""
        plain = {
            key: value
            for key, value in self._arguments.items()
            if key not in ("train", "validation")
        }
        if isinstance(plain["out"], Hook):
            plain["out"] = None
        fresh = {"_hook": None, "_rounds": None, "_given": Given(), "_looked": False}
        return {"_arguments": plain, **fresh}

    def __deepcopy__(self, memo: dict[int, Any]) -> TocsinCallback:
        """For an estimator that is cloned with its callbacks."""
        return type(self)(**self._arguments)

    def _start(self, model: Any) -> None:
        options = dict(self._arguments)
        out, shap = options.pop("out"), options.pop("shap")
        data = [options.pop(name, None) for name in ("train", "validation")]
        self._hook = hook = out if isinstance(out, Hook) else _hook(out, model, options)
        train, validation = (self._matrix(hook, each) for each in data)
        self._given = Given()
        with Guard(hook.trouble, "the training data set is unknown"):
            self._given = find_given()
        self._rounds = Rounds(hook, train, validation, self._given, shap=shap)
        self._looked = False

    def _off(self, what: str, error: Exception) -> None:
        self._hook = None
        log_error(what, error)

    @staticmethod
    def _matrix(hook: Hook, data: Any) -> Any:
        """A DMatrix of (X, y); one that is already stays as it is."""
        if data is None or isinstance(data, xgb.DMatrix):
            return data
        with Guard(hook.trouble, "train and validation must be a DMatrix or (X, y)"):
            features, labels = data
            return xgb.DMatrix(features, label=labels, enable_categorical=True)
        return None

    def _close(self, *, finished: bool | None) -> None:
        self._rounds = None
        if self._hook is not None and self._hook is not self._arguments["out"]:
            self._hook.close(finished=finished)


def _hook(out: Any, model: Any, options: dict[str, Any]) -> Hook:
    """A hook for this rank, whose steps are the model's rounds."""
    done = model.num_boosted_rounds()
    own = {
        "resumed_from": done - 1 if done else None,
        "worker": f"worker_{collective.get_rank()}",
        "num_workers": collective.get_world_size(),
        "usual_interval": 1,  # a training that stops early has few rounds
        "without_loss": _WITHOUT_LOSS,
    }
    return Hook(out, **(own | options))


def _agreed(stop: bool) -> bool:
    """Return whether any rank is to stop: all have to leave the loop in the same round."""
    if collective.get_world_size() == 1:
        return stop
    return bool(collective.allreduce(np.array([stop], np.int32), collective.Op.MAX)[0])
