from __future__ import annotations

import pytest
from tocsin.watch import belongs, built_in


@pytest.mark.parametrize(
    ("collection", "expected"),
    [
        ("all", True),
        ("default", True),
        ("weights", True),
        ("optimizer_variables", True),
        ("learning_rates", True),  # ours
        ("gelu_output", True),
        ("mine", False),
        ("Weights", False),
    ],
)
def test_which_collections_need_no_pattern(collection: str, expected: bool) -> None:
    assert built_in(collection) is expected


@pytest.mark.parametrize(
    ("name", "collections"),
    [
        ("Net_fc1.weight", {"weights"}),
        ("gradient/Net_fc1.weight", {"gradients"}),
        ("Net_fc1.bias", {"biases"}),
        ("gradient/Net_fc1.bias", {"gradients"}),
        ("CrossEntropyLoss_output_0", {"losses"}),
        ("CrossEntropyLoss_input_0", {"predictions"}),
        ("softmaxcrossentropyloss0_output_0", {"losses"}),
        ("dense/kernel:0", {"weights"}),  # by its role
        ("train-rmse", {"losses", "metrics"}),
        ("validation_0-auc", {"metrics"}),
        ("train-map@5", {"metrics"}),
        ("train-map_loss", {"losses", "metrics"}),  # somebody's own
        ("predictions", {"predictions"}),
        ("labels", {"labels"}),
        ("feature_importance/weight/f1", {"feature_importance"}),
        ("average_shap/f0", {"average_shap", "feature_importance"}),
        ("average_shap/shoulder_bias", {"average_shap", "feature_importance"}),
        ("average_shap/bias", set()),
        ("full_shap/f0/s", {"full_shap"}),
        ("trees/leaf", {"trees"}),
        ("hyperparameters/eta", {"hyperparameters"}),
        ("Net_act_output_0", {"activation_outputs"}),
        ("Net_relu_output_0", {"activation_outputs", "relu_output"}),
        ("whatever", set()),
    ],
)
def test_names_belong_as_smdebug_means_it(name: str, collections: set[str]) -> None:
    asked = (
        "weights biases gradients losses metrics predictions labels feature_importance trees "
        "average_shap full_shap hyperparameters activation_outputs relu_output tanh_output"
    )
    found = {collection for collection in asked.split() if belongs(name, collection)}
    assert found == collections
    assert belongs(name, "all")
    assert not belongs(name, "default")
    assert not belongs(name, "layers")
