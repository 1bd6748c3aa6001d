from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from tocsin.model import Role
from tocsin.tensors import collected, named, reduction_name

IN, OUT = Role.ACTIVATION_INPUT, Role.ACTIVATION_OUTPUT

TABLE: dict[Role | None, str] = {
    Role.GRADIENT: """
        gradient/fc1.weight gradient/MLP_fc1.bias gradient/conv0_weight gradient/batchnorm0_gamma
        gradients/dense/kernelGrad gradients/dense_1/biasGrad training/Adam/gradients/x/grad:0
        gradient/loss_head.weight gradients/relu_output grad/w1 grads/w1 fc1.weight.grad
    """,
    Role.WEIGHT: """
        fc1.weight MLP_fc1.weight Sequential_0.weight fc/weight weight layer1.0.bn1.weight
        rnn.weight_ih_l0 rnn.weight_hh_l1_reverse conv.weight_g attn.in_proj_weight
        loss_head.weight relu.weight dense/kernel:0 dense/kernel lstm/lstm_cell/recurrent_kernel:0
        embedding/embeddings:0 batch_normalization_1/gamma:0 dense/weights/dense/kernel:0
        weights/dense/kernel:0 weights/anything:0 conv1/weights:0 conv0_weight
        lstm0_l0_i2h_weight batchnorm0_gamma bert/encoder/LayerNorm/gamma:0
    """,
    Role.BIAS: """
        fc1.bias MLP_fc1.bias fc/bias bias rnn.bias_hh_l0 attn.in_proj_bias dense/bias:0
        weights/dense/bias:0 conv1/biases:0 dense0_bias batchnorm0_beta layer_norm/beta:0
    """,
    Role.LOSS: """
        loss val_loss train_loss train/loss val-loss dense_1_loss loss_0 Loss losses trainLoss
        total_loss:0 loss/value:0 softmax_loss/value:0 scalar/loss scalar/train/loss nll_loss
        CrossEntropyLoss_output_0 MSELoss_output_0 BCEWithLogitsLoss_output_0 Net_loss_output_0
        criterion_output_0 softmaxcrossentropyloss0_output_0 l2loss12_output_0
        train-rmse validation-logloss train-error@0.7 validation_0-mlogloss test-mae
        train-poisson-nloglik eval-tweedie-nloglik@1.5 train-gamma-deviance
    """,
    Role.METRIC: """
        accuracy val_accuracy acc val_acc train/acc sparse_categorical_accuracy scalar/accuracy
        auc val_auc_1 precision val_recall f1 f1_score mean_iou mean_absolute_error mse map
        top_5 val_map perplexity validation-auc train-aucpr validation-map train-map@5 test-ndcg@10-
        train-pre@3 train-interval-regression-accuracy
    """,
    Role.INPUT: """
        inputs input inputs_0 model_input input_ids hybridsequential0_input_0 sequential2_input_0
        embedding0_input_0 Net_embedding_input_0 Net_input_0
    """,
    Role.LABEL: """
        labels label labels_0 val_labels targets y_true
        CrossEntropyLoss_input_1 softmaxcrossentropyloss0_input_1
    """,
    Role.PREDICTION: """
        predictions predictions_0 val_predictions y_pred logits outputs
        hybridsequential0_output_0 Net_output_0 CrossEntropyLoss_input_0 MSELoss_input_0
    """,
    Role.LEARNING_RATE: "lr learning_rate lr_0 Adam/learning_rate:0 scalar/lr",
    None: """
        w1 raw twice batch size x epoch iteration state Tensor:0
        hyperparameters/eta hyperparameters/learning_rate hyperparameters/loss
        full_shap/f0 average_shap/bias
        bn1.running_mean bn1.running_var bn1.num_batches_tracked batchnorm0_running_mean
        batch_normalization/moving_variance:0 weights/batch_norm/moving_mean:0
        Adam/dense/kernel/m:0 Adam/iter:0 class_weight sample_weights loss_weight
        scalar/lr_x_epoch lr_scheduler color weighted weight_decay unbiased bias_correction
        gradient_norm my_gradient/x.y_ gradientx/fc
        lossless loss_scale glossary dropout_loss_rate loss_fn TripletMarginLoss_input_0
        cosineembeddingloss0_input_1 CTCLoss_input_2 CrossEntropyLoss_input_2
        feature_map attention_map roadmap accuracy_sum premap
        beta gamma kl_beta beta_1 fc1_output_0 conv0_output_0 dense/outputs dense/BiasAdd:0
        prelude_output_0 relu relu_outputs_mean crelu0_output_0 evaluation input_shape
        trees/ feature_importances labels_smoothing label_map predictions_count
        validation-custom train-auction smdebug/reductions/ scalar/
    """,
}

KINDS = {
    "relu": """
        ReLU_output_0 Net_relu_output_0 relu1_output_0 layers.1.relu_output_0 conv0_relu_output_0
        relu0_fwd_output_0 ReLU6_output_0 relu_output dense/relu_outputs re_lu/outputs
        re_lu_3/outputs activation_1/Relu:0 dense/outputs/dense/Relu:0 conv1_relu/Relu_1:0
    """,
    "tanh": "Tanh_output_0 dense0_tanh_output_0 tanh_output dense/Tanh:0",
    "sigmoid": "Sigmoid_output_0 gate.sigmoid_output_1 dense/Sigmoid:0",
    "softmax": "Softmax_output_0 softmax/outputs dense_2/Softmax:0",
    "gelu": "GELU_output_0 mlp.gelu_output_0",
    # like one of these, but not it: what makes a ReLU dead is how a leaky one works
    "leakyrelu": "LeakyReLU_output_0 leaky_relu1_output_0 leaky_re_lu_1/outputs conv/LeakyRelu:0",
    "prelu": "PReLU_output_0 p_re_lu/outputs",
    "selu": "SELU_output_0",
    "logsoftmax": "LogSoftmax_output_0",
    "hardtanh": "Hardtanh_output_0",
    "hardsigmoid": "hard_sigmoid/outputs",
    None: "activation_1/outputs activation0_output_0 act1_output_0",
}


def of(names: str) -> list[str]:
    return names.split()


@pytest.mark.parametrize(
    ("name", "role"), [(name, role) for role, names in TABLE.items() for name in of(names)]
)
def test_roles(name: str, role: Role | None) -> None:
    assert (named(name) or (None, None)) == (role, None)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, names in KINDS.items() for name in of(names)]
)
def test_activations(name: str, kind: str | None) -> None:
    assert named(name) == (OUT, kind)
    if "output" in name and ":" not in name:
        assert named(name.replace("output", "input")) == (IN, kind)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("feature_importance/weight", (Role.FEATURE_IMPORTANCE, "weight")),
        ("feature_importance/weight/f0", (Role.FEATURE_IMPORTANCE, "weight")),
        ("feature_importance/total_gain/a b/c", (Role.FEATURE_IMPORTANCE, "totalgain")),
        ("feature_importance/weights", (Role.FEATURE_IMPORTANCE, None)),
        ("average_shap/f0", (Role.FEATURE_IMPORTANCE, "shap")),
        ("average_shap/loss", (Role.FEATURE_IMPORTANCE, "shap")),  # a feature may be called so
        ("trees/Node", (Role.TREE, "node")),
        ("trees/ID", (Role.TREE, "id")),
    ],
)
def test_boosted_trees(name: str, expected: tuple[Role, str | None]) -> None:
    assert named(name) == expected


def test_a_reduction_is_called_what_its_tensor_is() -> None:
    assert named(reduction_name("abs_mean", "gradient/fc1.weight")) == (Role.GRADIENT, None)
    assert named(reduction_name("mean", "relu1_output_0")) == (OUT, "relu")


@pytest.mark.parametrize(
    "name", ["", "/", "_", ":0", "\n", "\0", "ｌｏｓｓ", "損失", " loss", "loss\nx"]
)
def test_odd_names(name: str) -> None:
    assert named(name) is None


def took(work: Callable[[], object]) -> float:
    """Seconds of the processor; the least of three times, for other work disturbs."""
    seconds = []
    for _ in range(3):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)


@pytest.fixture(scope="module")
def quadratic() -> float:
    """What a search takes on this machine that goes through a name once for each letter."""
    pattern, name = re.compile("[a-z]+!"), "a" * 4096
    return took(lambda: pattern.search(name))


@pytest.mark.parametrize("end", ["", "!", "_output_"])
@pytest.mark.parametrize(
    "piece",
    ["loss", "_", "a_", "relu_", "/", "weights/", "0", "_1", "norm_", "triplet", "train-", "A1",
     "gradient", "input_", "bias.", "log_soft", "accuracy_", ":0", "x/relu_output_0"],
)  # fmt: skip
def test_no_name_takes_long(quadratic: float, piece: str, end: str) -> None:
    name = (piece * 4096)[: 4096 - len(end)] + end
    assert took(lambda: named.__wrapped__(name)) < 4 * quadratic


@pytest.mark.parametrize(
    ("collection", "known"),
    [
        ("losses", (Role.LOSS, None)),
        ("relu_output", (OUT, "relu")),
        ("tanh_inputs", (IN, "tanh")),
        ("my_relu_output", None),
        ("default", None),
        ("", None),
    ],
)
def test_what_a_collection_holds(collection: str, known: object) -> None:
    assert collected(collection) == known
