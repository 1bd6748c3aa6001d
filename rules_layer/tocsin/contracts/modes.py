"""Contracts of train and eval mode, dropout and batch normalisation."""

from __future__ import annotations

from tocsin.contracts.contract import Contract
from tocsin.model import Severity

MODES = (
    Contract(
        "eval_mode_while_training",
        Severity.WARNING,
        "the model is trained in eval mode",
        "dropout is off and batch normalisation updates no statistics",
        "call model.train() after each evaluation and after from_pretrained",
    ),
    Contract(
        "train_mode_while_evaluating",
        Severity.WARNING,
        "the model is evaluated in train mode",
        "dropout and batch statistics change its outputs",
        "call model.eval() before an evaluation",
    ),
    Contract(
        "dropout_in_evaluation",
        Severity.WARNING,
        "dropout is active in eval mode",
        "evaluations and predictions are random, and worse than they should be",
        "pass training=self.training to F.dropout, or use nn.Dropout; in attention, dropout_p=0",
    ),
    Contract(
        "dropout_too_large",
        Severity.WARNING,
        "dropout drops 85 % of a layer or more, or the only unit of a layer",
        "almost no signal is left; its argument is the share to drop, not to keep",
        "use 0.1 to 0.5, and layers of many units",
    ),
    Contract(
        "dropout_on_output",
        Severity.WARNING,
        "the last layer is a dropout",
        "predictions are set to 0 at random, and dominate the loss",
        "use dropout between layers, not after the last one",
    ),
    Contract(
        "batch_norm_momentum_too_large",
        Severity.WARNING,
        "batch normalisation has a momentum of 0.9 or more: the weight of the latest batch",
        "eval mode normalises with the statistics of about one batch",
        "use 0.1 where Keras has 0.9, and 0.01 where it has 0.99",
    ),
    Contract(
        "batch_norm_momentum_too_small",
        Severity.WARNING,
        "more than half of batch normalisation's running statistics is their initial value",
        "eval mode normalises with other values than training, so evaluations are wrong",
        "use a momentum of 0.1, the weight of the latest batch, or train for more updates",
    ),
)
