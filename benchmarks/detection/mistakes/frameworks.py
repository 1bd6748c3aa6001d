"""Mistakes that only Keras or XGBoost can have, in their own words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.detection.change import mistake
from benchmarks.detection.task import Training


@mistake("keras", "probabilities no-skill slow worse", "classes|binary")
def from_logits_after_softmax(t: Training) -> Training:
    def loss(y: Any, found: Any) -> Any:
        import keras

        kinds = keras.losses
        if y.shape[-1] == found.shape[-1]:
            return kinds.binary_crossentropy(y, found, from_logits=True)
        return kinds.sparse_categorical_crossentropy(y, found, from_logits=True)

    return replace(t, keras={"loss": loss}, rate=t.rate / 30)


@mistake("keras", "probabilities no-skill worse not-finite", "classes|binary")
def logits_without_from_logits(t: Training) -> Training:
    return replace(t, keras={"last": None})


@mistake("keras", "range no-skill collapse saturated", "numbers")
def keras_sigmoid_for_numbers(t: Training) -> Training:
    return replace(t, keras={"last": "sigmoid"})


@mistake("keras", "dead no-skill no-gradient collapse")
def keras_zero_initializer(t: Training) -> Training:
    return replace(t, keras={"start": "zeros"})


@mistake("keras", "unbound no-skill slow", without="small")
def keras_model_not_trainable(t: Training) -> Training:
    return replace(t, keras={"frozen": True})


@mistake("keras", "mode no-skill slow worse", "numbers")
def keras_dropout_at_the_end(t: Training) -> Training:
    return replace(t, keras={"dropout": 0.6})


@mistake("keras", "schedule slow", without="small")
def plateau_of_a_maximum(t: Training) -> Training:
    """The rate is lowered while the loss falls."""

    def callbacks(keras: Any) -> list[Any]:
        return [keras.callbacks.ReduceLROnPlateau(mode="max", patience=1, factor=0.1)]

    return replace(t, keras={"callbacks": callbacks}, rate=t.rate / 10)


@mistake("trees", "overfit trees worse")
def trees_too_deep(t: Training) -> Training:
    return replace(t, trees={"max_depth": 14, "eta": 1.3, "lambda": 0.0})


@mistake("trees", "slow no-skill trees")
def eta_too_small(t: Training) -> Training:
    return replace(t, trees={"eta": 1e-3, "num_boost_round": 40})


@mistake("trees", "fast worse overfit trees")
def eta_of_five(t: Training) -> Training:
    return replace(t, trees={"eta": 5.0})


@mistake("trees", "trees no-skill slow")
def gamma_too_large(t: Training) -> Training:
    return replace(t, trees={"gamma": 1e5})


@mistake("trees", "trees no-skill slow", "numbers|classes", "small")
def min_child_weight_too_large(t: Training) -> Training:
    return replace(t, trees={"min_child_weight": 1500})


@mistake("trees", "trees slow no-skill")
def rounds_among_the_parameters(t: Training) -> Training:
    """xgb.train ignores n_estimators, and makes ten rounds."""
    given = {"n_estimators": 80, "num_boost_round": 10, "eta": 0.03}
    return replace(t, trees=given)


@mistake("trees", "trees range overfit", "numbers")
def later_values_are_larger(t: Training) -> Training:
    """Split by time while the target grows: trees do not extrapolate."""
    s = t.samples
    return replace(t, samples=replace(s, held_y=s.held_y + 3 * (s.y.max() - s.y.min())))
