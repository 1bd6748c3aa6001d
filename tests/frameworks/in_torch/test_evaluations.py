"""Evaluations, each a single step, and what looks like one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin import create_trial
from tocsin.model import ACTING, Mode, Role
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import entries, update

Loss = Callable[[Any, Any], Any]
Batches = list[tuple[Any, Any]]
EVERY = {"save_interval": 1, "max_overhead": None}


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def batch(size: int = 32) -> tuple[Any, Any]:
    x = torch.randn(size, 8)
    return x, (x[:, 0] > 0).long()


def train(model: nn.Module, loss: Loss, steps: int = 1) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.train()
    for _ in range(steps):
        x, y = batch()
        update(optimizer, loss(model(x), y))


def evaluate(model: nn.Module, loss: Loss, *sizes: int) -> float:
    """The mean loss of the samples of several batches."""
    model.eval()
    total = 0.0
    with torch.no_grad():
        for size in sizes:
            x, y = batch(size)
            total += size * loss(model(x), y).item()
    return total / sum(sizes)


def losses(run: Path, name: str, mode: Mode) -> dict[int, float]:
    tensor = create_trial(str(run)).tensor(name)
    return {step: float(tensor.value(step, mode=mode)) for step in tensor.steps(mode=mode)}


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (nn.CrossEntropyLoss(), "CrossEntropyLoss_output_0"),
        (F.cross_entropy, "loss"),
        (lambda p, y: F.nll_loss(F.log_softmax(p, 1), y), "loss"),
    ],
    ids=["a module's", "a function's", "another function's"],
)
def test_the_loss_of_an_evaluation_is_that_of_all_its_samples(
    loss: Loss, name: str, run: Path
) -> None:
    model = net()
    with TorchHook.attach(model, run, **EVERY) as hook:
        expected = {}
        for number in range(2):
            train(model, loss, 3)
            expected[number] = evaluate(model, loss, 32, 32, 7)
        assert hook.stats.errors == 0
    assert losses(run, name, Mode.EVAL) == pytest.approx(expected)
    assert len(losses(run, name, Mode.TRAIN)) == 6


@pytest.mark.parametrize("times", [0.25, 1 / 3])
def test_the_unit_is_that_of_training(times: float, run: Path) -> None:
    """A loss that is divided, and an evaluation that sums up."""
    model = net()
    with TorchHook.attach(model, run, **EVERY):
        train(model, lambda p, y: F.cross_entropy(p, y) * 1.0 * times, 3)
        model.eval()
        with torch.no_grad():
            x, y = batch(50)
            expected = times * F.cross_entropy(model(x), y)
            F.cross_entropy(model(x), y, reduction="sum")
    assert losses(run, "loss", Mode.EVAL) == pytest.approx({0: float(expected)})


def summed_squares(p: Any, y: Any) -> Any:
    return (p - F.one_hot(y, 4)).square().sum()


def summed_parts(p: Any, y: Any) -> Any:
    return F.cross_entropy(p, y, reduction="sum") - 0.5 * (p - p.exp()).sum()


@pytest.mark.parametrize(
    ("loss", "name", "times"),
    [
        (nn.CrossEntropyLoss(reduction="sum"), "CrossEntropyLoss_output_0", 32 / 50),
        (summed_squares, "loss", 32 / 50),
        (lambda p, y: summed_squares(p, y) / len(y), "loss", 1.0),
        (lambda p, y: F.cross_entropy(p, y, reduction="none").sum() / len(y), "loss", 1.0),
        (summed_parts, "loss", 32 / 50),
        (lambda p, y: summed_parts(p, y) / 8.0, "loss", 32 / 50),
        (lambda p, y: summed_parts(p, y) / len(y), "loss", 1.0),
    ],
)
def test_a_sum_is_that_of_as_many_samples_as_in_training(
    loss: Loss, name: str, times: float, run: Path
) -> None:
    model = net()
    with TorchHook.attach(model, run, **EVERY) as hook:
        train(model, loss, 3)
        model.eval()
        with torch.no_grad():
            x, y = batch(50)
            expected = times * float(loss(model(x), y))
        assert hook.stats.errors == 0
    assert losses(run, name, Mode.EVAL) == pytest.approx({0: expected})


def a_sum_and_a_mean(p: Any, y: Any) -> Any:
    return F.cross_entropy(p, y, reduction="sum") + p.square().mean()


def overlap(p: Any, y: Any) -> Any:
    return (p.softmax(1) * F.one_hot(y, 4)).sum(1).mean()


def test_a_sum_and_a_mean_have_no_unit(run: Path) -> None:
    model = net()
    with TorchHook.attach(model, run, **EVERY):
        train(model, a_sum_and_a_mean, 3)
        evaluate(model, a_sum_and_a_mean, 50)
    assert losses(run, "loss", Mode.EVAL) == {}


def test_a_constant_is_part_of_the_loss(run: Path) -> None:
    model = net()
    with TorchHook.attach(model, run, **EVERY):
        expected = {}
        for number in range(3):
            train(model, lambda p, y: 1 + -overlap(p, y), 2)
            expected[number] = evaluate(model, lambda p, y: 1 + -overlap(p, y), 40)
    assert losses(run, "loss", Mode.EVAL) == pytest.approx(expected)


def test_a_penalty_is_no_part_of_an_evaluation(run: Path) -> None:
    model = net()

    def penalised(p: Any, y: Any) -> Any:
        return (overlap(p, y) + model[0].weight.square().sum()) / 4

    with TorchHook.attach(model, run, **EVERY):
        train(model, penalised, 2)
        expected = evaluate(model, overlap, 40) / 4
    assert losses(run, "loss", Mode.EVAL) == pytest.approx({0: expected})


def of_two_parts(p: Any, y: Any) -> Any:
    return F.cross_entropy(p, y) + 0.1 * F.mse_loss(p, torch.zeros_like(p))


def and_by_hand(p: Any, y: Any) -> Any:
    return F.cross_entropy(p, y, reduction="sum") / len(y) - 0.1 * overlap(p, y)


@pytest.mark.parametrize("loss", [of_two_parts, and_by_hand])
def test_a_loss_of_several_parts(loss: Loss, run: Path) -> None:
    model = net()
    with TorchHook.attach(model, run, **EVERY) as hook:
        train(model, loss, 3)
        expected = evaluate(model, loss, 32, 32, 7)
        assert hook.stats.errors == 0
    assert losses(run, "loss", Mode.EVAL) == pytest.approx({0: expected})


def test_a_function_and_a_penalty(run: Path) -> None:
    model = net()

    def penalised(p: Any, y: Any) -> Any:
        return F.cross_entropy(p, y) + 0.01 * model[0].weight.square().sum()

    with TorchHook.attach(model, run, **EVERY):
        train(model, penalised, 3)
        expected = evaluate(model, F.cross_entropy, 40)
    assert losses(run, "loss", Mode.EVAL) == pytest.approx({0: expected})


@pytest.mark.parametrize("reduced", [torch.mean, torch.sum])
def test_a_loss_by_hand_of_all_batches_together(reduced: Callable[[Any], Any], run: Path) -> None:
    def loss(found: Any, y: Any) -> Any:
        return reduced((found - y[:, None]).square())

    model, batches = net(), [batch(size) for size in (32, 32, 7)]
    with TorchHook.attach(model, run, **EVERY) as hook:
        train(model, loss, 3)
        model.eval()
        with torch.no_grad():
            found = torch.cat([model(x) for x, _ in batches])
            value = loss(found, torch.cat([y for _, y in batches])).item()
        assert hook.stats.errors == 0
    expected = value * 32 / 71 if reduced is torch.sum else value
    assert losses(run, "loss", Mode.EVAL) == pytest.approx({0: expected})


def test_large_outputs_are_not_kept_for_another_pass(run: Path) -> None:
    model, is_gone = net(), []
    x, _ = batch((1 << 21) + 1)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None):
        train(model, F.cross_entropy)
        model.eval()
        with torch.no_grad():
            earlier = ref(model(x))
            model[0].register_forward_hook(lambda *_: is_gone.append(earlier() is None))
            model(x[:8])
    assert is_gone == [True]


def test_sums_of_batches_beside_what_is_joined(run: Path) -> None:
    def loss(found: Any, y: Any) -> Any:
        return (found - y[:, None]).square().sum()

    model, batches = net(), [batch(size) for size in (32, 32, 7)]
    with TorchHook.attach(model, run, **EVERY) as hook:
        train(model, loss)
        model.eval()
        kept, value = torch.empty(0, 4), 0.0
        with torch.no_grad():
            for x, y in batches:
                found = model(x)
                kept = torch.cat([kept, found])
                value += loss(found, y).item()
        assert hook.stats.errors == 0
    assert losses(run, "loss", Mode.EVAL) == pytest.approx({0: value * 32 / 71})


def test_two_passes_that_training_joins_are_no_batches(run: Path) -> None:
    def loss(model: nn.Module, x: Any) -> Any:
        both = torch.cat([model(x), model(x + 0.1)])
        return (both[: len(x)] - both[len(x) :]).square().mean()

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with TorchHook.attach(model, run, **EVERY):
        for _ in range(3):
            update(optimizer, loss(model, torch.randn(32, 8)))
        model.eval()
        with torch.no_grad():
            value = loss(model, torch.randn(32, 8)).item()
    assert losses(run, "loss", Mode.EVAL) == pytest.approx({0: value})


def batch_by_batch(model: nn.Module, batches: Batches) -> None:
    predicted, true = [], []
    for x, y in batches:
        predicted += model(x).argmax(1).tolist()
        true += y.tolist()
    np.mean(np.equal(predicted, true))


def as_arrays(model: nn.Module, batches: Batches) -> None:
    for x, y in batches:
        np.mean(model(x).numpy().argmax(1) == np.asarray(y))


def together(model: nn.Module, batches: Batches) -> None:
    predicted, true = [], []
    for x, y in batches:
        predicted.append(model(x).softmax(1).cpu())
        true.append(y)
    np.mean(torch.cat(predicted).numpy().argmax(1) == torch.cat(true).numpy())


def labels_first(model: nn.Module, batches: Batches) -> None:
    for x, y in batches:
        true = y.tolist()
        np.mean(np.equal(model(x).argmax(1).tolist(), true))


def compared_together(model: nn.Module, batches: Batches) -> None:
    predicted = torch.cat([model(x).argmax(1) for x, _ in batches])
    torch.sum(predicted == torch.cat([y for _, y in batches]))


def pair_by_pair(model: nn.Module, batches: Batches) -> None:
    for x, y in batches:
        sum(bool(p == each) for p, each in zip(model(x).argmax(1), y, strict=True))


def class_by_class(model: nn.Module, batches: Batches) -> None:
    for x, y in batches:
        predicted = model(x).argmax(1)
        for number in range(4):
            torch.sum((predicted == number) * (y == number))


def one_class(model: nn.Module, batches: Batches) -> None:
    for x, y in batches:
        torch.sum((model(x).argmax(1) == 1) * (y == 1))


def in_columns(model: nn.Module, batches: Batches) -> None:
    for x, y in batches:
        torch.sum(F.one_hot(model(x).argmax(1), 4) * F.one_hot(y, 4))


def with_another_column(model: nn.Module, batches: Batches) -> None:
    for x, y in batches:
        np.mean(model(x).argmax(1).numpy() == y.numpy())
        (x[:, 3] > 0).long().numpy()


@pytest.mark.parametrize(
    ("metric", "seen"),
    [
        (batch_by_batch, True),
        (as_arrays, True),
        (together, True),
        (labels_first, True),
        (compared_together, True),
        (pair_by_pair, True),
        (class_by_class, True),
        (one_class, False),
        (in_columns, True),
        (with_another_column, False),
    ],
)
def test_labels_that_leave_pytorch(
    metric: Callable[[nn.Module, Batches], None], seen: bool, run: Path
) -> None:
    model, batches = net(), [batch(32) for _ in range(12)]
    with TorchHook.attach(model, run, **EVERY) as hook:
        train(model, F.cross_entropy, 3)
        model.eval()
        with torch.no_grad():
            metric(model, batches)
        assert hook.stats.errors == 0
    first = int(metric is labels_first)  # whose labels left before its pass
    expected = np.mean([F.cross_entropy(model(x), y).item() for x, y in batches[first:]])
    found = losses(run, "loss", Mode.EVAL)
    assert found == pytest.approx({0: expected} if seen else {})


@pytest.mark.parametrize(("scale", "seen"), [(1.0, True), (100.0, False)])
def test_numbers_in_another_unit_are_no_labels(scale: float, seen: bool, run: Path) -> None:
    model = nn.Linear(8, 1)
    x = torch.randn(40, 8)
    with TorchHook.attach(model, run, **EVERY):
        train(model, lambda p, y: F.mse_loss(p[:, 0], torch.randn(len(p))), 3)
        model.eval()
        with torch.no_grad():
            np.abs(model(x).numpy()[:, 0] - (scale * torch.randn(40)).numpy())
    assert bool(losses(run, "loss", Mode.EVAL)) is seen


def test_a_long_evaluation_is_compared_more_and_more_rarely(run: Path) -> None:
    model = net()
    capture = Capture(collections={"skills": CollectionConfig(save_raw_tensor=True)})
    with TorchHook.attach(model, run, capture=capture, **EVERY):
        train(model, F.cross_entropy)
        evaluate(model, F.cross_entropy, *[8] * 40)
    rows = create_trial(str(run)).tensor("loss_1/skill").value(0, mode=Mode.EVAL)
    assert rows.shape == (7 + 4 + 4 + 2, 4)  # up to 8, 16, 32 and 40
    assert np.isfinite(rows[1:, :2]).all()


@pytest.mark.parametrize(("rows", "seen"), [(50, True), (500, False)])
def test_a_loss_comes_soon_after_its_pass(rows: int, seen: bool, run: Path) -> None:
    """A script that looks at each sample by itself pays for its first calls only."""
    model = net()
    with TorchHook.attach(model, run, **EVERY) as hook:
        train(model, F.cross_entropy, 3)
        x, y = batch(500)
        model.eval()
        with torch.no_grad():
            made = model(x)
            for row in range(rows):
                made[row].argmax()
            F.cross_entropy(made, y)
        train(model, F.cross_entropy, 3)
        assert hook.stats.errors == 0
    assert bool(losses(run, "loss", Mode.EVAL)) is seen
    assert len(losses(run, "loss", Mode.TRAIN)) == 6


class ManyCalls(nn.Linear):
    def forward(self, x: Any) -> Any:
        for _ in range(300):
            x = x * 1.0
        return super().forward(x)


def test_calls_inside_of_a_part_are_not_counted(run: Path) -> None:
    model = nn.ModuleDict({"body": ManyCalls(8, 16), "head": nn.Linear(16, 4)})
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def loss() -> Any:
        x, y = batch()
        return F.cross_entropy(model.head(model.body(x)), y)

    with TorchHook.attach(model, run, **EVERY):
        for _ in range(3):
            update(optimizer, loss())
        model.eval()
        with torch.no_grad():
            loss()
    assert len(losses(run, "loss", Mode.EVAL)) == 1


def test_the_name_that_the_script_gives_counts(run: Path) -> None:
    model = net()
    with TorchHook.attach(model, run, **EVERY) as hook:
        train(model, F.cross_entropy)
        evaluate(model, lambda p, y: hook.record_loss(F.cross_entropy(p, y), "val"), 8, 8)
        hook.save("accuracy", 0.5, "metrics")
    trial = create_trial(str(run))
    assert set(trial.tensor_names(collection="losses", mode=Mode.EVAL)) == {"val"}
    assert trial.tensor("accuracy").steps(mode=Mode.EVAL) == [0]


@pytest.mark.parametrize("training", [True, False])
def test_acting_is_no_evaluation(training: bool, run: Path) -> None:
    model = net()
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for number in range(40):
            model.train(training)
            with torch.no_grad():
                for _ in range(5):
                    model(torch.randn(1, 8))
            train(model, F.cross_entropy)
            if number % 20 == 19:
                evaluate(model, F.cross_entropy, 16, 16, 1)
    trial = create_trial(str(run))
    assert len(trial.steps(mode=Mode.TRAIN)) == 8
    assert len(losses(run, "loss", Mode.EVAL)) == len(trial.steps(mode=Mode.EVAL)) == 2
    kinds = [each.kind for each in entries(run, Role.LOSS) if each.name == "loss"]
    assert (kinds[0], kinds[-1]) == (None, ACTING)


class Switched(nn.Module):
    """Each call says whether it is one of training; no mode does."""

    def __init__(self) -> None:
        super().__init__()
        self.body = net()

    def forward(self, x: Any, training: bool = True) -> Any:
        return self.body(F.dropout(x, 0.2, training))


@pytest.mark.parametrize(
    ("given", "expected"), [({"training": False}, 6), ({"training": True}, 0), ({}, 0)], ids=str
)
@pytest.mark.parametrize("gradients", [False, True])
def test_a_call_says_that_it_evaluates(
    given: dict[str, bool], expected: int, gradients: bool, run: Path
) -> None:
    model = Switched()
    with TorchHook.attach(model, run, **EVERY):
        for _ in range(6):
            train(model, F.cross_entropy, 4)
            with torch.set_grad_enabled(gradients):
                model(batch()[0], **given)
    trial = create_trial(str(run))
    assert len(trial.steps(mode=Mode.EVAL)) == expected
    assert len(losses(run, "loss", Mode.TRAIN)) == 24


def test_a_model_that_is_trained_with_training_false(run: Path) -> None:
    """As where running means are to stay as they are: known from the first update on."""
    model = Switched()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, **EVERY):
        for step in range(12):
            x, y = batch()
            update(optimizer, F.cross_entropy(model(x, training=False), y))
            if step % 4 == 3:
                with torch.no_grad():
                    model(x, training=False)
    trial = create_trial(str(run))
    assert len(losses(run, "loss", Mode.TRAIN)) == 11
    assert len(trial.steps(mode=Mode.EVAL)) == 4


@pytest.mark.parametrize(("from_start", "expected"), [(True, ACTING), (False, None)])
def test_rollouts_before_many_updates_are_acting(
    from_start: bool, expected: str | None, run: Path
) -> None:
    """As in proximal policy optimisation; samples that are generated now and then are none."""
    model = net()
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for number in range(6):
            if from_start or number:
                with torch.no_grad():
                    for _ in range(12):
                        model(torch.randn(16, 8))
            for _ in range(40):
                train(model, F.cross_entropy)
    kinds = [each.kind for each in entries(run, Role.LOSS) if each.name == "loss"]
    assert (kinds[0], kinds[-1]) == (None, expected)


def test_the_value_of_the_last_state_is_part_of_training(run: Path) -> None:
    """As of an actor and a critic: outputs of several states, then one without gradients."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    with TorchHook.attach(model, run, **EVERY):
        for number in range(12):
            outputs = torch.stack([model(batch()[0]) for _ in range(4)])
            with torch.no_grad():
                last = model(batch()[0])
            update(optimizer, (outputs - last).square().mean())
            if number % 4 == 3:
                evaluate(model, F.cross_entropy, 32)
                model.train()
    trial = create_trial(str(run))
    gradients = trial.tensor_names(collection="gradients")
    assert len(trial.tensor("loss").steps(mode=Mode.TRAIN)) >= 11  # an optimizer is seen later
    assert len(trial.tensor(gradients[0]).steps(mode=Mode.TRAIN)) >= 11
    assert len(trial.tensor("Sequential_input_0").steps(mode=Mode.EVAL)) in (3, 4)


def test_an_evaluation_right_after_acting_is_one(run: Path) -> None:
    model = net()
    with TorchHook.attach(model, run, **EVERY):
        train(model, F.cross_entropy)
        with torch.no_grad():
            model(torch.randn(1, 8))
        expected = evaluate(model, F.cross_entropy, 16, 16)
    (found,) = losses(run, "loss", Mode.EVAL).values()
    assert found == pytest.approx(expected)
    (inputs,) = create_trial(str(run)).tensor("Sequential_input_0").steps(mode=Mode.EVAL)
    assert inputs == 1


def test_an_evaluation_of_one_sample_with_a_loss_is_one(run: Path) -> None:
    model = net()
    with TorchHook.attach(model, run, **EVERY):
        for _ in range(5):
            train(model, F.cross_entropy)
            evaluate(model, F.cross_entropy, 1, 1)
    assert len(losses(run, "loss", Mode.EVAL)) == 5


def squares(output: Any, y: Any) -> Any:
    return ((output - F.one_hot(y, 4)) ** 2).sum(1).mean()


def numbers(output: Any, y: Any) -> Any:
    return F.mse_loss(output[:, 0], y.float())


def whole(output: Any, y: Any) -> Any:
    return F.mse_loss(output, F.one_hot(y, 4).float())


def masks(output: Any, y: Any) -> Any:
    return F.binary_cross_entropy_with_logits(output, F.one_hot(y, 4).float())


def both(output: Any, y: Any) -> Any:
    found, mask = output > 0, F.one_hot(y, 4) > 0
    return (found & mask).sum() / (found | mask).sum()


def of_others(output: Any, y: Any) -> Any:
    found, mask = output > 0, F.one_hot(y, 4) > 0
    return (found & mask.roll(1, 0)).sum() / (found | mask).sum()


def best_two(output: Any, y: Any) -> Any:
    found = output.topk(2)[1].t()
    return found.eq(y.view(1, -1).expand_as(found))[0].sum()


def confusion(output: Any, y: Any, classes: int = 4) -> Any:
    known = y >= 0
    return torch.bincount(classes * y[known] + output.argmax(1)[known], minlength=classes**2)


def dice(output: Any, y: Any) -> Any:
    found, mask = (output > 0).float(), F.one_hot(y, 4).float()
    return 2 * (found * mask).sum() / (found.sum() + mask.sum())


def dice_of_flat_masks(output: Any, y: Any) -> Any:
    found, mask = (output > 0).float().view(-1), F.one_hot(y, 4).float().view(-1)
    return 2 * (found * mask).sum() / (found + mask).sum()


def masked(output: Any, y: Any) -> Any:
    found, mask = (output > 0).float(), F.one_hot(y, 4).float()
    return (found * mask).sum() / mask.sum()


def masked_errors(output: Any, y: Any) -> Any:
    errors = (output.sigmoid() - F.one_hot(y, 4).float()).abs()
    return (errors * (torch.rand(len(y), 4) > 0.5).float()).sum() / errors.sum()


def weighed(output: Any, y: Any) -> Any:
    labels = F.one_hot(y, 4).float()
    weights = torch.rand(len(y), 1)
    return F.binary_cross_entropy_with_logits(output, labels, weights)


def beside_a_part(output: Any, y: Any) -> Any:
    _ = F.mse_loss(output[:, 3], y.float())
    return F.cross_entropy(output, y)


def accuracy(output: Any, y: Any) -> Any:
    return (output.argmax(1) == y).float().mean()


def right(output: Any, y: Any) -> Any:
    found = output.max(1)[1]
    return found.eq(y.view_as(found)).sum()


@pytest.mark.parametrize(
    ("loss", "evaluated", "name", "share"),
    [
        (squares, squares, "loss", 1),
        (lambda p, y: 0.5 * squares(p, y), squares, "loss", 0.5),
        (F.cross_entropy, accuracy, "loss", 1),
        (nn.CrossEntropyLoss(), right, "CrossEntropyLoss_output_0", 1),
        (beside_a_part, accuracy, "loss", 1),
        (numbers, lambda p, y: (p[:, 0] - y.float()).abs().mean(), "loss", 1),
        (numbers, lambda p, y: (p[:, 1] - y.float()).abs().mean(), None, 1),
        (lambda p, y: F.cross_entropy(p[:16], y[:16]), accuracy, None, 1),
        (whole, lambda p, y: (p - F.one_hot(y, 4).float()).abs().mean(), "loss", 1),
        (whole, lambda p, y: F.l1_loss(p, F.one_hot(y, 4).float()), "loss", 1),
        (whole, lambda p, y: (p - F.one_hot(y, 4).float() - y[:, None]).square(), None, 1),
        (masks, both, "loss", 1),
        (masks, of_others, None, 1),
        (F.cross_entropy, best_two, "loss", 1),
        (F.cross_entropy, confusion, "loss", 1),
        (F.cross_entropy, lambda p, y: torch.bincount(y + p.argmax(1)), None, 1),
        (masks, lambda p, y: 2 * F.one_hot(y, 4) + (p > 0).long(), "loss", 1),
        (masks, dice, "loss", 1),
        (masks, dice_of_flat_masks, "loss", 1),
        (masks, masked, None, 1),
        (masks, masked_errors, None, 1),
        (whole, lambda p, y: (p.clamp(0, 1) - F.one_hot(y, 4).float()).square(), "loss", 1),
        (whole, lambda p, y: torch.norm(p - F.one_hot(y, 4).float(), dim=1), "loss", 1),
        (masks, lambda p, y: (p > 0) | (F.one_hot(y, 4) > 0), None, 1),
        (masks, lambda p, y: (p > 0) & (F.one_hot(y, 4) > 0), None, 1),
        (F.cross_entropy, lambda p, y: both(p.argmax(1)[:, None], y), None, 1),
        (weighed, lambda p, y: (p[:16] > 0) == (F.one_hot(y[:16], 4) > 0), None, 1),
        (nn.CrossEntropyLoss(), lambda p, y: p.argmax(1) == 7 - y, None, 1),
        (F.cross_entropy, lambda p, y: p.argmax(1) == p.argmin(1), None, 1),
        (squares, lambda p, y: (p - F.one_hot(y, 4)).abs().sum(1).mean(), None, 1),
    ],
    ids=[
        "by hand",
        "a part",
        "accuracy",
        "number",
        "a loss of the whole after that of a part",
        "a part of the output",
        "another part of the output",
        "some of the samples",
        "mean error",
        "another function",
        "another difference",
        "overlap and union of masks",
        "an overlap with another mask",
        "the best two classes",
        "a matrix of confusion",
        "a sum of classes",
        "a matrix of confusion of masks",
        "sums of masks",
        "sums of flat masks",
        "a mask for what counts",
        "a mask for errors",
        "limited numbers",
        "a norm",
        "a union alone",
        "an overlap alone",
        "overlap and union of classes",
        "weights of samples",
        "no classes",
        "no labels",
        "another loss",
    ],
)
def test_an_evaluation_that_calls_no_loss(
    loss: Loss, evaluated: Loss, name: str | None, share: float, run: Path
) -> None:
    model = net()
    asked = Capture(
        collections={
            "losses": CollectionConfig(),
            "skills": CollectionConfig(save_raw_tensor=True),
        }
    )
    with TorchHook.attach(model, run, capture=asked, **EVERY) as hook:
        train(model, loss, 20)
        torch.manual_seed(1)
        evaluate(model, lambda p, y: evaluated(p, y).float().mean(), 32, 32)
        then = copy.deepcopy(model)
        train(model, loss, 3)
        assert hook.stats.errors == 0
    torch.manual_seed(1)
    values = [loss(then(x), y).item() for x, y in (batch(), batch())]
    trial = create_trial(str(run))
    compared = (trial.tensor(each) for each in trial.tensor_names(collection="skills"))
    skills = [each for each in compared if each.steps(mode=Mode.EVAL)]
    assert len(skills) == (name is not None)
    if name is not None:
        (step,) = skills[0].steps(mode=Mode.EVAL)
        rows = skills[0].value(step, mode=Mode.EVAL)
        assert rows[:, 0] == pytest.approx([each / share for each in values])
        assert (rows[:, 3] == 32).all()
        assert losses(run, str(name), Mode.EVAL)[step] == pytest.approx(sum(values) / 2)


def test_channels_that_are_last_in_memory(run: Path) -> None:
    model = nn.Conv2d(1, 3, 3, padding=1).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(8, 1, 6, 6).to(memory_format=torch.channels_last)
    y = (x[:, 0] > 0).long()
    with TorchHook.attach(model, run, **EVERY) as hook:
        for _ in range(3):
            update(optimizer, F.cross_entropy(model(x), y))
        model.eval()
        with torch.no_grad():
            output = model(x)
            assert not output.is_contiguous()
            accuracy(output, y).item()
        assert hook.stats.errors == 0
    expected = F.cross_entropy(output, y).item()
    assert losses(run, "loss", Mode.EVAL) == pytest.approx({0: expected})


class ItsOwnLoss(nn.Module):
    """Gives its loss where it is given labels, as the models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net()

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        logits = self.net(x)
        if labels is None:
            return {"logits": logits}
        return {"loss": F.cross_entropy(logits.view(-1, 4), labels.view(-1)), "logits": logits}


def test_a_loss_inside_of_the_model_is_known_in_an_evaluation_without_labels(run: Path) -> None:
    model = ItsOwnLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    asked = Capture(collections={"skills": CollectionConfig(save_raw_tensor=True)})
    with TorchHook.attach(model, run, capture=asked, **EVERY) as hook:
        for _ in range(20):
            x, y = batch()
            update(optimizer, model(x, labels=y)["loss"])
        model.eval()
        x, y = batch()
        with torch.no_grad():
            accuracy(model(x)["logits"], y).item()
        assert hook.stats.errors == 0
    expected = F.cross_entropy(model.net(x), y).item()
    trial = create_trial(str(run))
    skills = [trial.tensor(each) for each in trial.tensor_names(collection="skills")]
    (skill,) = [each for each in skills if each.steps(mode=Mode.EVAL)]
    (step,) = skill.steps(mode=Mode.EVAL)
    assert skill.value(step, mode=Mode.EVAL)[0, 0] == pytest.approx(expected)
