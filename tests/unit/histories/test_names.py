"""The roles of scalars, and how names of training and evaluation come to match."""

from __future__ import annotations

import pytest
from tocsin.histories.names import is_score, kind_of_losses, role_of, with_phase_first
from tocsin.model import ACTING, COMPETING, Role


@pytest.mark.parametrize(
    ("names", "role"),
    [
        (
            "loss train_loss train/loss epoch_loss Loss/train loss_step nll perplexity train-rmse",
            Role.LOSS,
        ),
        (
            "mse batch_error trainLoss cross_entropy trainloss learn/RMSE loss_train total_loss",
            Role.LOSS,
        ),
        ("loss_dice iou_loss train/dice_loss_0 loss/loss_acc", Role.LOSS),
        ("loss/dice Loss/accuracy dice loss_grad loss_weight", Role.METRIC),
        (
            "accuracy auc f1 loss_scale terror AP-error precision_error best_loss error_code",
            Role.METRIC,
        ),
        (
            "val_loss eval_loss Loss/val test_loss valid_0/loss validation/epoch_loss dev.nll",
            Role.METRIC,
        ),
        (
            "valLoss valloss predict_loss validation_0/logloss lossVal testing/mae",
            Role.METRIC,
        ),
        ("grad_norm train/grad_norm gradient_norm gnorm total_grad_norm", Role.GRADIENT),
        ("lr learning_rate lr-Adam train/learning_rate opt.lr learningRate", Role.LEARNING_RATE),
    ],
)
def test_role(names: str, role: Role) -> None:
    assert {name: role_of(name) for name in names.split()} == dict.fromkeys(names.split(), role)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loss", "loss"),
        ("val_loss", "val_loss"),
        ("Loss/val", "val/Loss"),
        ("Loss/train", "train/Loss"),
        ("epoch/val_loss", "val/epoch/loss"),
        ("loss_train", "train/loss"),
        ("evaluate_loss", "evaluate_loss"),
        ("latest", "latest"),
    ],
)
def test_phase_first(name: str, expected: str) -> None:
    assert with_phase_first(name) == expected


def test_scores() -> None:
    scores = "accuracy val_acc mIoU mean_io_u val/iou ValSpearman kappa metrics/mAP50 rouge1"
    assert [name for name in scores.split() if not is_score(name)] == []
    others = "loss_dice iou_loss loss audio accuracy_loss pearl idiom studio_u reward lr"
    assert [name for name in others.split() if is_score(name)] == []


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("loss avg_return", ACTING),
        ("loss episode_return mean_returns", ACTING),
        ("loss returned", None),
        ("gen_loss disc_loss", COMPETING),
    ],
)
def test_kind_of_losses(names: str, kind: str | None) -> None:
    assert kind_of_losses(names.split()) == kind
