"""What a user names is all that a rule reads there, whatever else the run holds."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.evaluation import check, document
from tocsin.model import Mode
from tocsin.rules import PROFILES, TRAINING, get_rule, rule_names
from tocsin.tensors import (
    Captured,
    Collection,
    Collections,
    Entry,
    LocalStorage,
    RunWriter,
)
from tocsin.watch import PatternMatcher, Selection, Watched, resolve, to_watch
from tocsin_hooks.plan import Saved
from tocsin_hooks.wishes import wanting

RULES = [
    name
    for name in rule_names(about=TRAINING)
    if get_rule(name).__module__.startswith("tocsin.rules.")
]

TENSORS = {  # with their collections: what rules read by default, and what a user may name
    "accuracy": "metrics",
    "average_shap/f0": "average_shap",
    "fc.bias": "biases",
    "fc.weight": "weights",
    "feature_importance/weight/f0": "feature_importance",
    "gradient/fc.weight": "gradients",
    "input": "inputs",
    "labels": "labels",
    "loss": "losses",
    "lr": "learning_rates",
    "predictions": "predictions",
    "relu0_input_0": "relu_input",
    "relu0_output_0": "relu_output",
    "sigmoid0_input_0": "activation_inputs",
    "sigmoid0_output_0": "activation_outputs",
    "tanh0_input_0": "activation_inputs",
    "tanh0_output_0": "activation_outputs",
    "trees/node": "trees",
    "mine": "my_collection",
    "yours": "your_collection",
}

NO_TENSORS = {  # parameters that are texts, and name no tensors
    ("LossNotDecreasing", "mode"),
    ("SimilarAcrossRuns", "other_trials"),
    ("StalledTrainingRule", "training_job_name_prefix"),
    ("WorseThanBaseline", "runs"),
}

COMPANIONS = {
    "ExplodingTensor": {"between", "losses", "rates"},  # where a loss became NaN
    "WeightUpdateRatio": {"gradients"},
    "GradientExplosion": {
        "between",
        "losses",
        "objectives",
        "weights",
    },  # reads beside the named ones: what they find is not judged in place of these
    "FeatureImportanceOverweight": {"shap"},  # how many features there are
    "NonFiniteData": {"losses"},  # whether the training copes with NaN in labels
    "TrainEvalInputs": {"losses"},  # whether the evaluation is worse for it
    "PoorWeightInitialization": {"biases", "gradients", "losses", "weights"},  # of their own
}

Select = Callable[[Watched], Mapping[str, set[str]]]


def naming_parameters() -> Iterator[tuple[str, str]]:
    """Every parameter of every rule that is a text or a list of texts, for short of NO_TENSORS."""
    for rule in RULES:
        hints = typing.get_type_hints(get_rule(rule))
        for field in dataclasses.fields(get_rule(rule)):
            hint = hints[field.name]
            if str in (hint, *typing.get_args(hint)) and (rule, field.name) not in NO_TENSORS:
                yield rule, field.name


NAMING = list(naming_parameters())


def by_evaluation(watched: Watched) -> Mapping[str, set[str]]:
    """The tensors that each read of the rule selects."""
    collections = {
        name: Collection(name, tensor_names=tuple(t for t, c in TENSORS.items() if c == name))
        for name in TENSORS.values()
    }
    selection = Selection((watched,), Collections(2, collections, ("worker_0", "worker_1")))
    found: dict[str, set[str]] = {name: set() for name in watched.reads.tensors}
    for name in TENSORS:
        if chosen := selection.chosen(Entry(name)):
            for _, read, _ in chosen.reads:
                found[read].add(name)
    return found


def by_hook(watched: Watched) -> Mapping[str, set[str]]:
    """The tensors that the hook captures for each read of the rule."""
    matcher = PatternMatcher()
    return {
        read: {
            name
            for name, collection in TENSORS.items()
            if any(
                each is wanted for each in wanting([watched], Saved(name, (collection,)), matcher)
            )
        }
        for read, wanted in watched.reads.tensors.items()
    }


def watched(rule: str, profile: str, parameters: Mapping[str, Any]) -> Watched:
    watch = to_watch({"profile": profile, "rules": [{"rule": rule, "parameters": parameters}]})
    (found,), refused = resolve(watch)
    assert refused == ()
    return found


def named(parameter: str, tensor: str) -> str:
    if "regex" in parameter:
        return f"^{tensor}$"
    return {"mine": "my_collection", "yours": "your_collection"}[tensor]


@pytest.mark.parametrize("select", [by_evaluation, by_hook])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("rule", "parameter"), NAMING)
def test_one_parameter_decides_alone(
    rule: str, parameter: str, profile: str, select: Select
) -> None:
    before = select(watched(rule, profile, {}))
    after = select(watched(rule, profile, {parameter: named(parameter, "mine")}))
    changed = [found for read, found in after.items() if found != before.get(read)]
    assert changed
    assert all(found == {"mine"} for found in changed)


@pytest.mark.parametrize("select", [by_evaluation, by_hook])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("rule", sorted({rule for rule, _ in NAMING}))
def test_all_parameters_together(rule: str, profile: str, select: Select) -> None:
    """Several that name the same tensors are a union; nothing else is read but for companions."""
    own = [parameter for of, parameter in NAMING if of == rule]
    parameters = {name: named(name, ("mine", "yours")[at % 2]) for at, name in enumerate(own)}
    before = select(watched(rule, profile, {}))
    after = select(watched(rule, profile, parameters))
    companions = {read for read, found in after.items() if found == before.get(read)}
    assert companions == COMPANIONS.get(rule, set())
    union = set().union(*(found for read, found in after.items() if read not in companions))
    assert union == ({"mine", "yours"} if len(own) > 1 else {"mine"})


@pytest.mark.parametrize(
    ("named", "default"), [("right", "wrong"), ("wrong", "right")], ids=["right", "wrong"]
)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "parameters",
    [
        {"labels": "y_true", "predictions": "y_pred"},
        {"labels": "truth", "predictions": "guesses"},
        {"labels_collection": "truth", "predictions_collection": "guesses"},
        {"labels": "y_true", "predictions_collection": "guesses"},
        {"labels": "truth", "labels_collection": "truth", "predictions": "y_pred"},
        {  # as in Amazon's example, of which only the names of the tensors were changed
            "labels": "y_true",
            "predictions": "y_pred",
            "labels_collection": "labels",
            "predictions_collection": "predictions",
        },
    ],
)
def test_confusion_judges_the_named_tensors(
    tmp_path: Path, parameters: dict[str, str], profile: str, named: str, default: str
) -> None:
    classes = np.arange(10)
    predicted = {"right": classes, "wrong": np.where(classes == 4, 7, classes)}
    storage = written(
        tmp_path,
        {
            "labels": ("labels", classes),
            "predictions": ("predictions", predicted[default]),
            "y_true": ("truth", classes),
            "y_pred": ("guesses", predicted[named]),
        },
    )
    rule = {"rule": "Confusion", "parameters": parameters, "for_steps": 1}
    checkpoint, _ = check(storage, to_watch({"profile": profile, "rules": [rule]}))
    (found,) = document(checkpoint)["rules"]
    status = {"right": "NoIssuesFound", "wrong": "IssuesFound"}[named]
    assert (found["RuleEvaluationStatus"], found["DataPoints"]) == (status, 1)
    if found["FirstViolation"]:
        assert found["FirstViolation"]["tensor"] == "y_true"


def written(folder: Path, tensors: Mapping[str, tuple[str, NDArray[Any]]]) -> LocalStorage:
    """A finished run of one step: of each tensor its collection and its value."""
    storage = LocalStorage(folder)
    writer = RunWriter(storage)
    writer.write_collections(
        [Collection(collection, tensor_names=(name,)) for name, (collection, _) in tensors.items()]
    )
    writer.write(0, Mode.TRAIN, 0, [Captured(name, value) for name, (_, value) in tensors.items()])
    writer.close()
    return storage
