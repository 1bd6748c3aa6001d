"""The loss is seen however a script computes it, and saved once, under a steady name."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin import Mode, create_trial
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.conftest import Net, hooks_of
from tests.frameworks.in_torch.runs import update, values

EVERY: dict[str, Any] = {"save_interval": 1, "max_overhead": None}
STEPS = 4
Batch = tuple[torch.Tensor, torch.Tensor]
Step = Callable[[Any, Batch], list[float]]
"""Computes a loss and calls ``backward``: the values that are to be saved, one for each loss."""


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor


class Returning(nn.Module):
    """Gives its loss in the form that ``style`` makes."""

    def __init__(self, style: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.net = Net()
        self.style = style

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        logits = self.net(x)
        return self.style(logits, F.cross_entropy(logits, y))


class Penalised(Net):
    def penalty(self) -> torch.Tensor:
        return sum(parameter.square().sum() for parameter in self.parameters())


def function(model: Any, batch: Batch) -> list[float]:
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    return [loss.item()]


def arithmetic(model: Any, batch: Batch) -> list[float]:
    loss = (model(batch[0]) - 1).square().mean() + 0.1
    loss.backward()
    return [loss.item()]


def whole_sum(model: Any, batch: Batch) -> list[float]:
    output = model(batch[0])
    first, second = F.cross_entropy(output, batch[1]), output.abs().mean()
    (first + 0.5 * second).backward()
    return [first.item() + 0.5 * second.item()]


def scaled(model: Any, batch: Batch) -> list[float]:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    loss = F.cross_entropy(model(batch[0]), batch[1])
    scaler.scale(loss).backward()
    for parameter in model.parameters():
        parameter.grad /= 1024
    return [loss.item()]


def autograd_grad(model: Any, batch: Batch) -> list[float]:
    loss = F.cross_entropy(model(batch[0]), batch[1])
    parameters = [*model.parameters()]
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    return [loss.item()]


def functional_call(model: Any, batch: Batch) -> list[float]:
    """The parameters are other tensors than those of the model."""
    ours = {name: each.detach().requires_grad_() for name, each in model.named_parameters()}
    loss = F.cross_entropy(torch.func.functional_call(model, ours, (batch[0],)), batch[1])
    gradients = torch.autograd.grad(loss, [*ours.values()])
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    return [loss.item()]


def autograd_backward(model: Any, batch: Batch) -> list[float]:
    loss = F.cross_entropy(model(batch[0]), batch[1])
    torch.autograd.backward([loss])
    return [loss.item()]


def gradient_penalty(model: Any, batch: Batch) -> list[float]:
    """What is differentiated by an input is no loss, though it is a single number."""
    images = batch[0].clone().requires_grad_()
    output = model(images)
    (slope,) = torch.autograd.grad(output.sum(), images, create_graph=True)
    loss = F.cross_entropy(output, batch[1]) + slope.square().mean()
    loss.backward()
    return [loss.item()]


def two_forward_passes(model: Any, batch: Batch) -> list[float]:
    left, right = model(batch[0]), model(batch[0].flip(0))
    loss = (left - right).square().mean() + F.cross_entropy(left, batch[1])
    loss.backward()
    return [loss.item()]


def two_backward_passes(model: Any, batch: Batch) -> list[float]:
    output = model(batch[0])
    real, fake = F.cross_entropy(output, batch[1]), output.square().mean()
    real.backward(retain_graph=True)
    fake.backward()
    return [real.item(), fake.item()]


def a_loop_over_losses(model: Any, batch: Batch) -> list[float]:
    output = model(batch[0])
    losses = [F.cross_entropy(output, batch[1]), output.square().mean()]
    for loss in losses:
        loss.backward(retain_graph=True)
    return [sum(loss.item() for loss in losses)]


def helper_named_backward(model: Any, batch: Batch) -> list[float]:
    def backward(loss: torch.Tensor) -> None:
        loss.backward()

    output = model(batch[0])
    first, second = F.cross_entropy(output, batch[1]), output.square().mean()
    backward(first + 0 * second)
    backward(F.mse_loss(model(batch[0]), output.detach() + 1))
    return [first.item(), 1.0]


def parts_only(model: Any, batch: Batch) -> list[float]:
    """The model itself is never called."""
    loss = F.cross_entropy(model.fc2(model.relu1(model.fc1(batch[0]))), batch[1])
    loss.backward()
    return [loss.item()]


def a_module_without_reduction(model: Any, batch: Batch) -> list[float]:
    loss = nn.CrossEntropyLoss(reduction="none")(model(batch[0]), batch[1]).mean()
    loss.backward()
    return [loss.item()]


WAYS: list[tuple[Step, int]] = [
    (function, 0),
    (arithmetic, 0),
    (whole_sum, 0),
    (scaled, 0),
    (autograd_grad, 0),
    (functional_call, 0),
    (autograd_backward, 0),
    (gradient_penalty, 0),
    (two_forward_passes, 0),
    (two_backward_passes, 0),
    (a_loop_over_losses, 0),
    (helper_named_backward, 0),
    (a_module_without_reduction, 0),
    (parts_only, 1),  # the first optimizer's step shows that the model is not called
]


def trained(model: Any, step: Step, batch: Batch) -> list[list[float]]:
    """What each step says that its losses are."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        found.append(step(model, batch))
        optimizer.step()
    return found


@pytest.mark.parametrize(("step", "missed"), WAYS, ids=lambda each: getattr(each, "__name__", ""))
def test_the_loss_is_seen(step: Step, missed: int, net: Any, batch: Batch, run: Path) -> None:
    with TorchHook.attach(net, run, **EVERY):
        expected = trained(net, step, batch)[missed:]
    for number, wanted in enumerate(zip(*expected, strict=True)):
        name = f"loss_{number}" if number else "loss"
        assert values(run, name) == pytest.approx(wanted, rel=1e-5), name
    others = {"CrossEntropyLoss_output_0"} if step is a_module_without_reduction else set()
    losses = create_trial(str(run)).tensor_names(collection="losses")
    assert len(set(losses) - others) == len(expected[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("step", [function, two_backward_passes, whole_sum])
def test_of_a_compiled_model(step: Step, backend: str, net: Any, batch: Batch, run: Path) -> None:
    with TorchHook.attach(net, run, **EVERY):
        expected = trained(torch.compile(net, backend=backend), step, batch)
    assert values(run, "loss") == pytest.approx([each[0] for each in expected], rel=1e-5)


def test_of_a_model_that_is_compiled_in_place(net: Any, batch: Batch, run: Path) -> None:
    net.compile(backend="aot_eager")
    with TorchHook.attach(net, run, **EVERY):
        expected = trained(net, function, batch)
    found = values(run, "loss")
    assert found == pytest.approx([value for (value,) in expected][-len(found) :])
    assert len(found) >= STEPS - 2


def test_of_a_compiled_function_that_calls_the_model(net: Any, batch: Batch, run: Path) -> None:
    compiled = torch.compile(lambda x, y: F.cross_entropy(net(x), y), backend="aot_eager")

    def step(model: Any, batch: Batch) -> list[float]:
        loss = compiled(*batch)
        loss.backward()
        return [loss.item()]

    with TorchHook.attach(net, run, **EVERY):
        expected = trained(net, step, batch)
    assert values(run, "loss") == pytest.approx(
        [value for (value,) in expected][-len(values(run, "loss")) :]
    )
    assert len(values(run, "loss")) >= STEPS - 1


@pytest.mark.parametrize(
    "style",
    [
        lambda logits, loss: (logits, loss),
        lambda logits, loss: [loss, logits],
        lambda logits, loss: {"logits": logits, "loss": loss},
        lambda logits, loss: {"logits": logits, "total": loss},
        Output,
        lambda logits, loss: loss,
    ],
    ids=["tuple", "list", "dict", "dict by another name", "dataclass", "alone"],
)
@pytest.mark.parametrize("divided", [False, True])
def test_a_loss_that_the_model_returns(style: Any, divided: bool, batch: Batch, run: Path) -> None:
    """In evaluation, too, and whole where micro-batches are divided by their number."""
    model = Returning(style)

    def loss_of(output: Any) -> torch.Tensor:
        values = output if isinstance(output, list | tuple) else [output]
        values = [*output.values()] if isinstance(output, dict) else values
        values = [output.loss] if isinstance(output, Output) else values
        return next(each for each in values if each.dim() == 0)

    def step(model: Any, batch: Batch) -> list[float]:
        parts = zip(batch[0].chunk(2), batch[1].chunk(2), strict=True) if divided else [batch]
        losses = []
        for part in parts:
            loss = loss_of(model(*part))
            (loss / 2 if divided else loss).backward()
            losses.append(loss.item())
        return [sum(losses) / len(losses)]

    with TorchHook.attach(model, run, **EVERY):
        expected = [value for (value,) in trained(model, step, batch)]
        model.eval()
        with torch.no_grad():
            evaluated = loss_of(model(*batch)).item()
    assert values(run, "loss") == pytest.approx(expected, rel=1e-5)
    assert values(run, "loss", Mode.EVAL) == pytest.approx([evaluated])
    trial = create_trial(str(run))
    assert trial.tensor_names(collection="losses") == ["loss"]
    assert not any(
        trial.tensor(name).shape(0) == () for name in trial.tensor_names(regex="^Returning_output")
    )


def test_what_is_maximised_is_not_taken_for_the_loss(batch: Batch, run: Path) -> None:
    model = Returning(lambda logits, loss: (logits, -loss))

    def step(model: Any, batch: Batch) -> list[float]:
        loss = -1 * model(*batch)[1]
        loss.backward()
        return [loss.item()]

    with TorchHook.attach(model, run, **EVERY):
        expected = [value for (value,) in trained(model, step, batch)]
    assert values(run, "loss") == pytest.approx(expected)


@pytest.mark.parametrize("times", [1, 0.25, 3e4])
def test_a_module_s_loss_is_saved_once(times: float, net: Any, batch: Batch, run: Path) -> None:
    """And what is differentiated beside it, if that is another number."""
    criterion = nn.CrossEntropyLoss()

    def step(model: Any, batch: Batch) -> list[float]:
        loss = criterion(model(batch[0]), batch[1])
        (loss if times == 1 else times * loss).backward()
        return [loss.item()]

    with TorchHook.attach(net, run, **EVERY):
        expected = [times * value for (value,) in trained(net, step, batch)]
    trial = create_trial(str(run))
    assert trial.tensor_names(collection="losses") == ["CrossEntropyLoss_output_0"]
    assert trial.tensor_names(collection="objectives") == ["objective"] * (times != 1)
    if times != 1:
        assert values(run, "objective") == pytest.approx(expected)


@pytest.mark.parametrize("before", [True, False], ids=["before backward", "after it"])
def test_the_name_that_the_script_gives_counts(
    before: bool, net: Any, batch: Batch, run: Path
) -> None:
    hook = TorchHook.attach(net, run, **EVERY)

    def step(model: Any, batch: Batch) -> list[float]:
        loss = F.cross_entropy(model(batch[0]), batch[1])
        if before:
            hook.record_loss(loss, "mine").backward()
        else:
            loss.backward()
            hook.record_loss(loss, "mine")
        return [loss.item()]

    expected = [value for (value,) in trained(net, step, batch)]
    hook.close()
    assert values(run, "mine") == pytest.approx(expected)
    assert create_trial(str(run)).tensor_names(collection="losses") == ["mine"]


def test_an_adversarial_pair(run: Path) -> None:
    """Two losses of the discriminator, and the one of the generator that goes through it."""
    torch.manual_seed(0)
    generator, judge = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    ours, theirs = (torch.optim.SGD(each.parameters(), 0.01) for each in (judge, generator))
    ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
    with TorchHook.attach(judge, run, **EVERY):
        for _ in range(6):
            ours.zero_grad()
            fake = generator(torch.randn(8, 2))
            F.binary_cross_entropy_with_logits(judge(torch.randn(8, 4)), ones).backward()
            F.binary_cross_entropy_with_logits(judge(fake.detach()), zeros).backward()
            ours.step()
            update(theirs, F.binary_cross_entropy_with_logits(judge(fake), ones))
    names = create_trial(str(run)).tensor_names(collection="losses")
    assert sorted(names) == ["loss", "loss_1", "loss_2"]


def test_training_in_evaluation_mode(net: Any, batch: Batch, run: Path) -> None:
    """As one fine-tunes with frozen batch normalisation."""
    net.eval()
    with TorchHook.attach(net, run, **EVERY):
        expected = [value for (value,) in trained(net, function, batch)]
    assert values(run, "loss", Mode.EVAL) == pytest.approx(expected)


@pytest.mark.parametrize("step", [function, parts_only, two_backward_passes, gradient_penalty])
def test_nothing_changes_and_no_trace_stays(step: Step, net: Any, batch: Batch, run: Path) -> None:
    alone = copy.deepcopy(net)
    before = hooks_of(net)
    with TorchHook.attach(net, run, **EVERY):
        seen = trained(net, step, batch)
    assert seen == trained(alone, step, batch)
    for mine, theirs in zip(net.parameters(), alone.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert hooks_of(net) == before
