"""Losses beside those of the same predictions with the labels of other samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from numpy.typing import NDArray
from tocsin.model import Mode, Role
from tocsin.tensors import LocalStorage, index_objects, read_index, read_values
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import entries, update

ASKED = Capture(collections={"skills": CollectionConfig(save_raw_tensor=True)})
Rows = NDArray[np.float64]  # columns: loss, re-paired, constant, samples
Loss = Callable[[Any, Any], Any]


def net(outputs: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, outputs))


def compared(run: Path, mode: Mode = Mode.TRAIN) -> dict[tuple[str, str | None], Rows]:
    """All comparisons of a mode, by the name of the tensor and its kind."""
    storage, found = LocalStorage(run), {}
    for each in index_objects(storage):
        index = read_index(storage, each)
        entries = [entry for entry in index.entries if entry.role == Role.SKILL]
        if entries and index.mode is mode:
            values = read_values(storage, index, [entry.name for entry in entries])
            for entry in entries:
                rows = np.asarray(values[entry.name])
                found.setdefault((entry.name, entry.kind), []).append(rows)
    return {name: np.concatenate(rows) for name, rows in found.items()}


def train(
    run: Path,
    loss: Loss,
    *,
    model: nn.Module | None = None,
    steps: int = 60,
    size: int = 32,
    learns: bool = True,
    evaluates: bool = False,
) -> dict[tuple[str, str | None], Rows]:
    model = model or net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(steps):
            x = torch.randn(size, 8)
            y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
            y = y if learns else y[torch.randperm(size)]
            update(optimizer, loss(model(x), y))
        if evaluates:
            with torch.no_grad():
                loss(model.eval()(x), y)
        assert hook.stats.errors == 0
    return compared(run)


def skill(rows: Rows) -> float:
    return float(np.mean((rows[:, 1] - rows[:, 0]) / np.abs(rows[:, 1])))


def one_hot(y: Any) -> Any:
    return F.one_hot(y, 4).float()


LOSSES: dict[str, Loss] = {
    "cross_entropy": F.cross_entropy,
    "nll_loss": lambda p, y: F.nll_loss(F.log_softmax(p, 1), y),
    "binary_cross_entropy": lambda p, y: F.binary_cross_entropy(p.sigmoid(), one_hot(y)),
    "binary_cross_entropy_with_logits": lambda p, y: F.binary_cross_entropy_with_logits(
        p, one_hot(y), pos_weight=torch.full((4,), 3.0)
    ),
    "mse_loss": lambda p, y: 1e6 * F.mse_loss(p, one_hot(y)),
    "l1_loss": lambda p, y: F.l1_loss(p, one_hot(y), reduction="sum"),
    "huber_loss": lambda p, y: F.huber_loss(p, one_hot(y)),
    "smooth_l1_loss": lambda p, y: F.smooth_l1_loss(p, one_hot(y), reduction="none").mean(),
    "kl_div": lambda p, y: F.kl_div(F.log_softmax(p, 1), one_hot(y), reduction="batchmean"),
    "poisson_nll_loss": lambda p, y: F.poisson_nll_loss(p, one_hot(y)),
    "gaussian_nll_loss": lambda p, y: F.gaussian_nll_loss(p, one_hot(y), torch.ones(32, 4)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_learned_shows(name: str, run: Path) -> None:
    found = train(run, LOSSES[name])
    assert list(found) == [("loss/skill", name)]
    rows = found["loss/skill", name]
    assert rows.shape == (56, 4)  # each step until the last save
    assert (rows[:, 3] == 32).all()
    assert np.isfinite(rows[:, :2]).all()
    if name != "poisson_nll_loss":  # it may be negative
        assert skill(rows[-20:]) > 0.1


@pytest.mark.parametrize("name", ["cross_entropy", "mse_loss"])
def test_labels_of_other_samples_teach_nothing(name: str, run: Path) -> None:
    rows = train(run, LOSSES[name], steps=200, learns=False)["loss/skill", name]
    assert abs(skill(rows)) < 0.02


def test_the_constant_is_the_best_one(run: Path) -> None:
    rows = train(run, LOSSES["cross_entropy"], steps=100)["loss/skill", "cross_entropy"]
    known = rows[np.isfinite(rows[:, 2])]
    assert len(known) > 50
    assert known[-20:, 2].mean() == pytest.approx(np.log(4), rel=0.05)
    rows = train(run.with_name("mse"), lambda p, y: F.mse_loss(p[:, 0], y.float()), steps=100)[
        "loss/skill", "mse_loss"
    ]
    assert rows[-40:, 2].mean() == pytest.approx(1.25, rel=0.1)  # the variance of 0, 1, 2, 3


def wide(numbers: Any) -> Any:
    """As many columns as a picture has pixels."""
    return numbers[:, None].expand(-1, 100)


@pytest.mark.parametrize(
    ("name", "loss", "best"),
    [
        ("huber_loss", lambda p, y: F.huber_loss(p[:, 0], y.float(), delta=9.0), 0.625),
        ("smooth_l1_loss", lambda p, y: F.smooth_l1_loss(p[:, 0], y.float()), 0.625),
        ("l1_loss", lambda p, y: F.l1_loss(wide(p[:, 0]), wide(y.float())), 1.0),
        ("poisson_nll_loss", lambda p, y: F.poisson_nll_loss(p[:, 0], y.float()), 0.8918),
    ],
)
def test_other_constants_are_near_the_best(name: str, loss: Loss, best: float, run: Path) -> None:
    rows = train(run, loss, steps=100)["loss/skill", name]
    assert best - 0.05 < rows[-40:, 2].mean() < 1.25 * best


def test_padding_is_no_skill(run: Path) -> None:
    """Where labels are ignored the predictions are others: they are not paired with labels."""

    def loss(p: Any, y: Any) -> Any:
        padded = torch.arange(len(y)) % 2 == 0
        p = p * 0 + p.sum() * 0 + torch.where(padded[:, None], 9.0 * one_hot(y), 0.0)
        return F.cross_entropy(p, torch.where(padded, -100, y))

    rows = train(run, loss)["loss/skill", "cross_entropy"]
    assert rows[:, 0] == pytest.approx(rows[:, 1])
    assert (rows[:, 3] == 16).all()


@pytest.mark.parametrize("shape", ["flat", "positions last"])
def test_a_sequence_is_judged_by_its_positions(shape: str, run: Path) -> None:
    """Scores of shape (N, classes, positions) are those of (N * positions, classes)."""

    def loss(p: Any, y: Any) -> Any:
        padded = torch.arange(6) > 3
        at_padding = 9.0 * F.one_hot(torch.tensor(2), 4)[:, None]
        scores = torch.where(padded, at_padding, p[:, :, None].expand(-1, -1, 6) * 0)
        labels = torch.where(padded, -100, y[:, None].expand(-1, 6))
        if shape == "flat":
            return F.cross_entropy(scores.transpose(1, 2).flatten(0, 1), labels.flatten())
        return F.cross_entropy(scores, labels)

    rows = train(run, loss)["loss/skill", "cross_entropy"]
    assert rows[:, 0] == pytest.approx(rows[:, 1])  # that padding is predicted is no skill
    assert (rows[:, 3] == 32 * 4).all()


def test_a_batch_of_one(run: Path) -> None:
    rows = train(run, F.cross_entropy, size=1, steps=300)["loss/skill", "cross_entropy"]
    known = rows[np.isfinite(rows[:, 1])]
    assert len(known) > 200
    assert skill(known[-100:]) > 0.1


def test_labels_that_are_all_the_same_are_not_compared(run: Path) -> None:
    rows = train(run, lambda p, y: F.cross_entropy(p, y * 0))["loss/skill", "cross_entropy"]
    assert np.isnan(rows[:, 1]).all()


def test_a_large_batch_is_sampled(run: Path) -> None:
    """Then the loss is that of the same sample."""
    wide = nn.Sequential(nn.Linear(8, 512))
    wide_loss: Loss = lambda p, y: F.cross_entropy(p, y)  # noqa: E731
    rows = train(run, wide_loss, model=wide, size=256, steps=300)["loss/skill", "cross_entropy"]
    assert (rows[:, 3] == 128).all()
    assert skill(rows[-50:]) > 0.1


def padded(p: Any, y: Any) -> Any:
    """Three of four samples are padded, and have the first class."""
    known = torch.arange(len(y)) % 4 == 0
    losses = F.cross_entropy(p, torch.where(known, y, 0), reduction="none")
    return (losses * known).sum() / known.sum()


def hardest(p: Any, y: Any) -> Any:
    return F.cross_entropy(p, y, reduction="none").topk(8).values.mean()


def of_one_class(p: Any, y: Any) -> Any:
    return F.cross_entropy(p, y, reduction="none")[y > 0].mean()


@pytest.mark.parametrize("loss", [padded, hardest, of_one_class])
def test_elements_that_do_not_count_alike(loss: Loss, run: Path) -> None:
    """What the function gives for all of them is not what is trained: the script's own loss is."""
    ((_, kind),) = train(run, loss)
    assert kind == "loss"


def test_another_loss_beside_elements_that_do_not_count_alike(run: Path) -> None:
    """In the same line."""

    def loss(p: Any, y: Any) -> Any:
        return F.cross_entropy(p, y) + (F.cross_entropy(p, y, reduction="none") * (y > 0)).mean()

    (rows,) = train(run, loss).values()
    assert len(rows) > 40


def losses_of(run: Path) -> set[str]:
    return {each.name for each in entries(run, Role.LOSS)}


def test_the_mean_of_elements_that_do_not_count_alike_is_no_loss(run: Path) -> None:
    """In an evaluation, too."""
    criterion = nn.CrossEntropyLoss(reduction="none")
    train(run, lambda p, y: (criterion(p, y) * (y > 0)).sum() / 24, evaluates=True)
    assert losses_of(run) == {"loss"}


class BalancedLoss(nn.Module):
    """Weighs the elements itself, as a focal loss does by its alpha."""

    def forward(self, p: Any, y: Any) -> Any:
        each = F.cross_entropy(p, y, reduction="none")
        return (torch.where(y > 0, 0.25, 0.75) * each).mean()


def test_a_module_weighs_its_elements(run: Path) -> None:
    found = train(run, BalancedLoss())
    assert losses_of(run) == {"BalancedLoss_output_0"}
    assert [*found] == [("loss/skill", "loss")]


def test_elements_that_count_alike(run: Path) -> None:
    def loss(p: Any, y: Any) -> Any:
        each = F.cross_entropy(p, y, reduction="none", weight=torch.tensor([1.0, 2.0, 1.0, 1.0]))
        return torch.stack([2.0 * each.mean(), p.square().mean()]).sum() / 3

    assert list(train(run, loss)) == [("loss/skill", "cross_entropy")]


class FocalLoss(nn.Module):
    def forward(self, p: Any, y: Any) -> Any:
        return F.cross_entropy(p, y, reduction="none").square().mean()


def test_a_loss_has_the_name_of_its_module(run: Path) -> None:
    focal, criterion = FocalLoss(), nn.CrossEntropyLoss()

    def loss(p: Any, y: Any) -> Any:
        first, second = p[:, :4], p[:, 4:]
        return focal(first, y) + criterion(first, y) + criterion(second, y % 3)

    found = train(run, loss, model=net(7))
    assert set(found) == {
        ("FocalLoss/skill", "cross_entropy"),
        ("CrossEntropyLoss/skill", "cross_entropy"),
        ("CrossEntropyLoss_1/skill", "cross_entropy"),
    }


class Labelled(nn.Module):
    """As models of transformers are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, x: Any, labels: Any) -> Any:
        return {"loss": F.cross_entropy(self.inner(x), labels)}


def test_one_call_of_an_evaluation_gives_several_comparisons(run: Path) -> None:
    """From the first evaluation on, beside the best constant by the labels of training."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=1, max_overhead=None) as hook:
        for _ in range(20):
            x = torch.randn(32, 8)
            update(optimizer, F.cross_entropy(model(x), (x[:, 0] > 0).long()))
        model.eval()
        with torch.no_grad():
            x = torch.randn(400, 8)
            F.cross_entropy(model(x), (x[:, 0] > 0).long())
        assert hook.stats.errors == 0
    (rows,) = compared(run, Mode.EVAL).values()
    assert rows[:, 3].tolist() == [50.0] * 8
    assert rows[:, 2] == pytest.approx([np.log(2)] * 8, rel=0.1)


@pytest.mark.parametrize("how", ["cross_entropy", "nll_loss", "binary_cross_entropy"])
def test_evaluations_with_other_shares_of_classes(how: str, run: Path) -> None:
    """Training has as many of each; what is right for that is no better than even shares here."""
    ends = {"nll_loss": nn.LogSoftmax(1), "binary_cross_entropy": nn.Sigmoid()}
    binary = how.startswith("binary")
    model = nn.Sequential(nn.Linear(8, 1 if binary else 2), ends.get(how, nn.Identity()))
    loss = getattr(F, how)

    def judged(labels: Any) -> Any:
        output = model(torch.randn(len(labels), 8))
        return loss(output, labels[:, None].float() if binary else labels)

    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=1, max_overhead=None) as hook:
        for _ in range(20):
            update(optimizer, judged(torch.arange(32) % 2))
        model.eval()
        with torch.no_grad():
            judged((torch.arange(400) % 20 == 0).long())
        assert hook.stats.errors == 0
    (rows,) = compared(run, Mode.EVAL).values()
    assert np.nanmax(rows[:, 2]) == pytest.approx(np.log(2), rel=0.05)
    assert np.nanmin(rows[:, 2]) == pytest.approx(np.log(2), rel=0.05)


def shares(x: Any, y: Any) -> Any:
    return F.cross_entropy(torch.bincount(y, minlength=4).log().expand(len(y), 4), y)


def first_of_all(x: Any, y: Any) -> Any:
    return F.mse_loss(y[:1].float().expand(len(y)), y.float())


def as_given(x: Any, y: Any) -> Any:
    """As the last value of a series is a guess of the next one."""
    return F.l1_loss(x[:, 0], y.float())


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("guess", [shares, first_of_all, as_given])
def test_a_guess_that_is_printed_beside_is_not_the_model(
    guess: Any, inside: bool, run: Path
) -> None:
    model = Labelled() if inside else net()

    def loss(x: Any, y: Any) -> Any:
        return model(x, y)["loss"] if inside else F.cross_entropy(model(x), y)

    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for step in range(30):
            x = torch.randn(32, 8)
            y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
            update(optimizer, loss(x, y))
            if step % 10 == 9:
                model.eval()
                with torch.no_grad():
                    assert float(loss(x, y)) < float(guess(x, y)) * 20
                model.train()
        assert hook.stats.errors == 0
    found = compared(run, Mode.EVAL)
    assert [kind for _, kind in found] == ["cross_entropy"]
    assert [len(rows) for rows in found.values()] == [3]


def mixed(p: Any, y: Any) -> Any:
    return 0.7 * F.cross_entropy(p, y) + 0.3 * F.cross_entropy(p, y.flip(0))


def logged(p: Any, y: Any) -> Any:
    F.cross_entropy(p, y.clone())
    return F.cross_entropy(p, y.clone())


@pytest.mark.parametrize(("loss", "known"), [(mixed, 0), (logged, 40)])
def test_two_labels_of_one_prediction_have_no_level(loss: Loss, known: int, run: Path) -> None:
    for rows in train(run, loss, steps=80).values():
        assert int(np.isfinite(rows[20:, 2]).sum()) >= known
        assert known or not np.isfinite(rows[20:, 2]).any()


class WithHelp(nn.Module):
    """Beside what it returns it keeps the scores of a second head."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.head = net(), net()
        self.help: Any = None

    def forward(self, x: Any) -> Any:
        self.help = self.head(x)
        return self.net(x)


def test_heads_that_a_model_keeps_are_no_guess(run: Path) -> None:
    model = WithHelp()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for step in range(30):
            x = torch.randn(32, 8)
            y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
            update(optimizer, F.cross_entropy(model(x), y) + F.mse_loss(model.help, one_hot(y)))
            if step % 10 == 9:
                model.eval()
                with torch.no_grad():
                    F.cross_entropy(model(x), y)
                    F.mse_loss(model.help, one_hot(y))
                model.train()
        assert hook.stats.errors == 0
    kinds = [kind for _, kind in compared(run, Mode.EVAL)]
    assert sorted(kinds) == ["cross_entropy", "mse_loss"]


def test_a_loss_inside_of_the_model_in_both_modes(run: Path) -> None:
    model = Labelled()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5):
        for _ in range(20):
            x = torch.randn(32, 8)
            update(optimizer, model(x, labels=(x[:, 0] > 0).long())["loss"])
        model.eval()
        with torch.no_grad():
            model(x, labels=(x[:, 0] > 0).long())
    assert compared(run)["loss/skill", "cross_entropy"].shape == (16, 4)
    assert compared(run, Mode.EVAL)["loss/skill", "cross_entropy"].shape == (1, 4)


def test_the_training_is_the_same_with_it(run: Path) -> None:
    def parameters(capture: Capture, out: Path) -> list[Any]:
        torch.manual_seed(3)
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        with TorchHook.attach(model, out, capture=capture, save_interval=5):
            for _ in range(30):
                x = torch.randn(32, 8)
                optimizer.zero_grad()
                loss = F.cross_entropy(F.dropout(model(x)), (x[:, 0] > 0).long())
                loss.backward()
                optimizer.step()
        return [each.tolist() for each in model.parameters()]

    assert parameters(ASKED, run) == parameters(Capture(), run.with_name("without"))
