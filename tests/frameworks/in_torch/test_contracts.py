"""Calls of losses and optimizers that cannot be meant, and odd ones that are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.model import Role
from tocsin.tensors import LocalStorage, index_objects, read_index
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks.torch import TorchHook
from torch import nn

ASKED = Capture(collections={"contracts": CollectionConfig()})
SIZE = 16


def net(outputs: int = 4, *last: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, outputs), *last)


def broken(run: Path) -> dict[str, str]:
    """The contracts that were saved, with their places."""
    storage = LocalStorage(run)
    entries = [each for o in index_objects(storage) for each in read_index(storage, o).entries]
    names = [each.name.split("/") for each in entries if each.role == Role.CONTRACT]
    assert len(names) == len({tuple(name) for name in names})  # each is reported once
    return {name: place for _, name, place in names}


def train(
    run: Path,
    model: nn.Module,
    loss: Callable[[nn.Module, Any, Any], Any],
    *,
    steps: int = 30,
    optimizer: torch.optim.Optimizer | None = None,
    zero: bool = True,
) -> dict[str, str]:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(steps):
            x = torch.randn(SIZE, 8)
            y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
            if zero:
                optimizer.zero_grad()
            loss(model, x, y).backward()
            optimizer.step()
        assert hook.stats.errors == 0
    return broken(run)


def maps() -> nn.Sequential:
    """Maps of one channel."""
    return net(16, nn.Unflatten(1, (1, 4, 4)), nn.Tanh())


def one_hot(y: Any, classes: int) -> Any:
    return F.one_hot(y, classes).float()


def one_of(y: Any) -> Any:
    return y.float() / 4


def cosines(one: Any, other: Any) -> Any:
    """Of pairs, twice as many as there are samples."""
    first, second = torch.cat([one, -one]), torch.cat([other, -other])
    return F.normalize(first, dim=1) @ F.normalize(second, dim=1).T


def slope(value: Any, x: Any, *, kept: bool = True) -> Any:
    return torch.autograd.grad(value.sum(), x, create_graph=kept, retain_graph=True)[0]


def decay(model: nn.Module, x: Any, *, kept: bool = True) -> Any:
    """What a model of an equation of first order is trained with."""
    x.requires_grad_()
    value = model(x)
    return (slope(value, x, kept=kept)[:, :1] + 2 * value).square().mean()


def equation(model: nn.Module, x: Any) -> Any:
    """What is to be 0 everywhere."""
    x.requires_grad_()
    return (slope(model(x), x, kept=False)[:, :1] + x[:, :1].sin().detach()).square().mean()


def diffusion(model: nn.Module, x: Any) -> Any:
    """One of second order."""
    x.requires_grad_()
    value = model(x)
    second = slope(slope(value, x)[:, :1], x)[:, :1]
    return (value - 0.1 * second).square().mean()


def best_action(model: nn.Module, x: Any, y: Any, *, detached: bool) -> Any:
    """The loss of a critic: what the best of the next actions is worth is its target."""
    taken = model(x).gather(1, y[:, None])[:, 0]
    best = model(-x).max(1).values
    return F.smooth_l1_loss(taken, y + 0.9 * (best.detach() if detached else best))


def quantile(error: Any) -> Any:
    return torch.max(0.9 * error, (0.9 - 1) * error).mean()


def sum_of_quantiles(p: Any, y: Any) -> Any:
    errors = [y[:, None] - p[:, at] for at in range(2)]
    parts = [torch.max(0.9 * each, (0.9 - 1) * each).unsqueeze(1) for each in errors]
    return torch.cat(parts, 1).sum(1).mean()


def rare(x: Any) -> Any:
    """One label of sixteen is 1."""
    return (x[:, 0] >= x[:, 0].max()).long()


FAULTS = {
    "broadcast": (net(1), lambda m, x, y: F.mse_loss(m(x), y.float())),
    "broadcast of labels": (
        net(1),
        lambda m, x, y: F.mse_loss(m(x)[:, 0], y.float() + 0.9 * m(x).detach()),
    ),
    "broadcast by swapped arguments": (net(1), lambda m, x, y: F.mse_loss(y.float(), m(x))),
    "broadcast_difference": (net(1), lambda m, x, y: (m(x) - y.float()).square().mean()),
    "broadcast_difference of a row of labels": (
        net(1),
        lambda m, x, y: (m(x) - y.float()[None]).square().mean(),
    ),
    "broadcast_difference of a transpose": (
        net(1),
        lambda m, x, y: (m(x).T - y.float().view(-1, 1)).square().mean(),
    ),
    "relu_on_scores": (net(4, nn.ReLU()), lambda m, x, y: F.cross_entropy(m(x), y)),
    "relu_on_scores of logarithms": (
        net(4, nn.ReLU(), nn.LogSoftmax(1)),
        lambda m, x, y: F.nll_loss(m(x), y),
    ),
    "relu_on_scores of a policy": (
        net(4, nn.ReLU(), nn.LogSoftmax(1)),
        lambda m, x, y: -(m(x).gather(1, y[:, None])[:, 0] * x[:, 3]).mean(),
    ),
    "relu_on_scores of two classes": (
        net(1, nn.ReLU()),
        lambda m, x, y: F.binary_cross_entropy_with_logits(m(x), (y > 0).float()[:, None]),
    ),
    "softmax_between_layers": (
        net(16, nn.Softmax(1), nn.Linear(16, 4)),
        lambda m, x, y: F.cross_entropy(m(x), y),
    ),
    "sigmoid_between_layers": (
        net(16, nn.Sigmoid(), nn.Linear(16, 4)),
        lambda m, x, y: F.cross_entropy(m(x), y),
    ),
    "sigmoid_between_layers that are convolutions": (
        net(16, nn.Sigmoid(), nn.Unflatten(1, (1, 16)), nn.Conv1d(1, 1, 13, bias=False)),
        lambda m, x, y: F.cross_entropy(m(x)[:, 0], y),
    ),
    "log_of_zero": (
        net(4, nn.Softmax(1)),
        lambda m, x, y: -(F.one_hot(y, 4) * (m(1e3 * x)).log()).sum(1).mean(),
    ),
    "log_of_zero of a negative number": (
        net(1),
        lambda m, x, y: (m(x) * x[:, :1]).log().mean(),
    ),
    "sqrt_of_zero or of a negative number": (
        net(1),
        lambda m, x, y: (m(x) * x[:, :1]).sqrt().mean(),
    ),
    "sqrt_of_zero": (
        net(2),
        lambda m, x, y: ((m(x)[:, None] - m(x)).square().sum(-1).sqrt() - 1).square().mean(),
    ),
    "division_by_zero": (net(1), lambda m, x, y: (m(x)[:, 0] / (x[:, 0] > 0).float()).mean()),
    "division_by_zero that is left out": (
        net(1),
        lambda m, x, y: (m(x)[:, 0] / (n := (x[:, 0] > 0).float())).where(n > 0, 0.0).mean(),
    ),
    "dropout_too_large for the only unit": (
        net(1, nn.Dropout(0.5), nn.Linear(1, 4)),
        lambda m, x, y: F.cross_entropy(m(x), y),
    ),
    "broadcast_difference of quantiles": (net(1), lambda m, x, y: quantile(y.float() - m(x))),
    "broadcast_difference of quantiles that are joined": (
        net(2),
        lambda m, x, y: sum_of_quantiles(m(x), y.float()),
    ),
    "broadcast_difference of quantiles by where": (
        net(1),
        lambda m, x, y: (e := m(x) - y.float()).where(e > 0, -3.0 * e).sum(),
    ),
    "broadcast_difference before another pass": (
        net(1),
        lambda m, x, y: 3.0 * (m(x) - y.float()).square().mean() + m(-x).square().mean(),
    ),
    "broadcast_difference of two passes": (
        net(1),
        lambda m, x, y: (torch.cat([m(x), m(x)]) - y.repeat(2).float()).square().mean(),
    ),
    "broadcast_difference of maps": (
        maps(),
        lambda m, x, y: (m(x) - x.repeat(1, 2).view(-1, 4, 4)).square().mean(),
    ),
    "broadcast_difference of labels with a channel": (
        maps(),
        lambda m, x, y: (m(x)[:, 0] - x.repeat(1, 2)[None].reshape(-1, 1, 4, 4) * 1).abs().mean(),
    ),
    "broadcast_product of maps": (
        maps(),
        lambda m, x, y: (m(x).square() * (x.repeat(1, 2).view(-1, 4, 4) > 0)).sum() / SIZE,
    ),
    "broadcast_product before a difference": (
        maps(),
        lambda m, x, y: (m(x) * x.repeat(1, 2).view(-1, 4, 4).sign() - 1.0).square().mean(),
    ),
    "broadcast_product of weights": (
        net(1),
        lambda m, x, y: ((m(x) - y[:, None]).square() * (1.0 + y)).mean(),
    ),
    "broadcast_product of a column of labels": (
        net(1),
        lambda m, x, y: (y[:, None] * m(x)[:, 0].square()).mean(),
    ),
    "probabilities_as_logits": (
        net(4, nn.Softmax(1)),
        lambda m, x, y: nn.CrossEntropyLoss()(m(x), y),
    ),
    "not_log_probabilities": (net(4, nn.Softmax(1)), lambda m, x, y: F.nll_loss(m(x), y)),
    "target_out_of_range of clamp": (
        net(1),
        lambda m, x, y: F.mse_loss(m(x)[:, 0].clamp(0.4, 0.6), y.float()),
    ),
    "target_out_of_range of softplus": (
        net(1, nn.Softplus()),
        lambda m, x, y: F.l1_loss(m(x), -y.float()[:, None]),
    ),
    "target_out_of_range of a softmax of several labels": (
        net(4, nn.Softmax(1)),
        lambda m, x, y: F.binary_cross_entropy(m(x), (x[:, :4] > -1).float()),
    ),
    "softmax_single_class": (
        net(1, nn.Softmax(1)),
        lambda m, x, y: F.binary_cross_entropy(m(x), (y > 0).float()[:, None]),
    ),
    "softmax_single_class by a loss": (net(1), lambda m, x, y: F.cross_entropy(m(x), y * 0)),
    "softmax_twice": (
        net(4, nn.Softmax(1)),
        lambda m, x, y: F.nll_loss(F.log_softmax(m(x), -1), y),
    ),
    "softmax_twice by a distribution": (
        net(4, nn.Softmax(-1)),
        lambda m, x, y: -torch.distributions.Categorical(logits=m(x)).log_prob(y).mean(),
    ),
    "not_log_probabilities of sequences": (
        net(12),
        lambda m, x, y: F.ctc_loss(
            m(x).view(-1, 3, 4).softmax(2).permute(1, 0, 2),
            y[:, None].clamp(min=1),
            torch.full((len(x),), 3),
            torch.ones(len(x), dtype=torch.long),
        ),
    ),
    "ctc_blank_in_labels": (
        net(12),
        lambda m, x, y: F.ctc_loss(
            m(x).view(-1, 3, 4).log_softmax(2).permute(1, 0, 2),
            y[:, None],  # the first class is the blank
            torch.full((len(x),), 3),
            torch.ones(len(x), dtype=torch.long),
        ),
    ),
    "softmax_over_batch": (net(4, nn.LogSoftmax(0)), lambda m, x, y: F.nll_loss(m(x), y)),
    "softmax_single_class of one sample": (  # of a policy, for example
        net(4, nn.Softmax(0)),
        lambda m, x, y: -torch.distributions.Categorical(m(x[:1])).log_prob(y[:1]).sum(),
    ),
    "softmax_over_positions": (  # (N, classes, positions)
        net(12),
        lambda m, x, y: F.nll_loss(F.log_softmax(m(x).view(-1, 4, 3), 2), y[:, None].repeat(1, 3)),
    ),
    "broadcast of maps": (  # (N, 1, 4, 4) against (N, 4, 4)
        net(16),
        lambda m, x, y: F.mse_loss(m(x).view(-1, 1, 4, 4), x.repeat(1, 2).view(-1, 4, 4)),
    ),
    "all_labels_ignored of maps": (
        net(16),
        lambda m, x, y: (
            F.cross_entropy(
                m(x).view(-1, 4, 2, 2), torch.full((SIZE, 2, 2), 255), ignore_index=255
            ).nan_to_num()
            + m(x).mean()
        ),
    ),
    "all_labels_ignored": (
        net(),
        lambda m, x, y: F.cross_entropy(m(x), y * 0 - 100).nan_to_num() + m(x).mean(),
    ),
    "target_out_of_range": (
        net(1, nn.Sigmoid()),
        lambda m, x, y: F.mse_loss(m(x), 255 * y.float()[:, None]),
    ),
    "target_out_of_range of a loss by hand": (
        net(1, nn.Tanh()),
        lambda m, x, y: (m(x) - 10 * y.float()[:, None]).abs().mean(),
    ),
    "target_out_of_range of a multiple": (
        net(1, nn.Tanh()),
        lambda m, x, y: F.mse_loss(m(x) * 2 / 3.0, 1 + y.float()[:, None]),
    ),
    "target_out_of_range with a mask": (
        net(1, nn.Sigmoid()),
        lambda m, x, y: (
            ((m(x) - 9 * y.float()[:, None]).abs() * (y[:, None] > 0)).mean() + m(x).mean()
        ),
    ),
    "target_out_of_range of a relative loss": (
        net(1, nn.Sigmoid()),
        lambda m, x, y: (
            (m(x) - 9 * y.float()[:, None]).norm(dim=1) / (1 + y.float()[:, None].norm(dim=1))
        ).mean(),
    ),
    "target_out_of_range of a sequence": (
        net(1, nn.Sigmoid()),
        lambda m, x, y: F.mse_loss(torch.cat([m(x), m(-x)], 1), 9.0 * torch.stack([y, y], 1)),
    ),
    "target_out_of_range of the value of an action": (
        net(4, nn.Tanh()),
        lambda m, x, y: F.mse_loss(m(x).gather(1, y[:, None]), 9.0 + y[:, None]),
    ),
    "target_out_of_range of a value that is picked": (
        net(4, nn.Softmax(1)),
        lambda m, x, y: F.smooth_l1_loss(m(x)[range(len(y)), y], 9.0 + y),
    ),
    "bce_target_out_of_range": (
        net(1),
        lambda m, x, y: F.binary_cross_entropy_with_logits(m(x), 255 * y.float()[:, None]),
    ),
    "kl_div_input_not_log": (
        net(4, nn.Softmax(1)),
        lambda m, x, y: F.kl_div(m(x), F.one_hot(y, 4).float(), reduction="batchmean"),
    ),
    "constant_input": (net(), lambda m, x, y: F.cross_entropy(m(x * 0), y)),
    "tokens_identical": (
        nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 4)),
        lambda m, x, y: F.cross_entropy(m(torch.ones(len(x), 3, dtype=torch.long)), y),
    ),
    "ctc_input_too_short": (
        net(12),
        lambda m, x, y: F.ctc_loss(
            m(x).view(-1, 3, 4).log_softmax(2).permute(1, 0, 2),
            torch.randint(1, 4, (len(x), 2)),
            torch.arange(len(x)) % 2 + 1,
            torch.full((len(x),), 2),
            zero_infinity=True,
        ),
    ),
    "class_weights_inverted of half": (
        net(2),
        lambda m, x, y: F.cross_entropy(m(x), (x[:, 0] > 0.1).long(), torch.tensor([90.0, 1.0])),
    ),
    "class_weights_inverted": (
        net(2),
        lambda m, x, y: F.cross_entropy(m(x), rare(x), torch.tensor([9.0, 1.0])),
    ),
    "target_out_of_range of an autoencoder": (
        net(8, nn.Sigmoid()),
        lambda m, x, y: ((m(x) - x).square().sum(1) / 0.1 + m[0].bias.square().sum()).mean(),
    ),
    "cosines_as_logits": (
        net(),
        lambda m, x, y: F.cross_entropy(cosines(m(x), m(x + 0.1)), torch.arange(2 * SIZE)),
    ),
    "cosines_as_logits by hand": (
        net(),
        lambda m, x, y: -cosines(m(x), m(x + 0.1)).log_softmax(1).diagonal().mean(),
    ),
    "labels_identical of a linear layer": (
        net(12),
        lambda m, x, y: F.cross_entropy(m(x.repeat(4, 1)), y.repeat(4) // 255),
    ),
    "labels_identical": (
        net(36, nn.Unflatten(1, (12, 3))),
        lambda m, x, y: F.cross_entropy(
            m(x.repeat(4, 1)), torch.where(x.repeat(4, 1)[:, :3] > 0, -100, 5)
        ),
    ),
    "several_classes_in_cross_entropy": (
        net(),
        lambda m, x, y: F.cross_entropy(m(x), (x[:, :4] > 0).float()),
    ),
    "derivative_without_graph": (net(1, nn.Tanh()), lambda m, x, y: decay(m, x, kept=False)),
    "derivative_without_graph of a term": (
        net(1, nn.Tanh()),
        lambda m, x, y: (m(x) - 1).square().mean() + 0.5 * equation(m, x + 1),
    ),
    "target_not_detached": (net(), lambda m, x, y: best_action(m, x, y, detached=False)),
    "derivative_always_zero": (net(1), lambda m, x, y: diffusion(m, x)),
    "class_weights_inverted of one class": (
        net(1),
        lambda m, x, y: F.binary_cross_entropy_with_logits(
            m(x)[:, 0], rare(x).float(), pos_weight=torch.tensor(0.1)
        ),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_contract_is_saved_with_its_line(name: str, run: Path) -> None:
    model, loss = FAULTS[name]
    found = train(run, model, loss)
    contract = name.split()[0]
    assert contract in found
    assert found[contract].startswith("test_contracts.py:")


def focal(model: nn.Module, x: Any, y: Any) -> Any:
    return (F.cross_entropy(model(x), y, reduction="none") ** 2).mean()


def pairwise(model: nn.Module, x: Any, y: Any) -> Any:
    score = model(x)[:, 0]
    apart = score[:, None] - score[None].detach()
    return F.softplus(-apart * (y[:, None] - y[None]).sign()).mean()


def contrastive(model: nn.Module, x: Any, y: Any) -> Any:
    alike = model(x) @ model(x + 0.1).T
    at = torch.arange(SIZE)
    return F.nll_loss(F.log_softmax(alike, 0), at) + F.cross_entropy(alike, at)


def masked(model: nn.Module, x: Any, y: Any) -> Any:
    target = torch.where(y == 0, 255.0, (y % 2).float())
    each = F.binary_cross_entropy_with_logits(model(x)[:, 0], target, reduction="none")
    return each[y > 0].mean()


def distilled(model: nn.Module, x: Any, y: Any) -> Any:
    taught = F.softmax(x[:, :4], 1)
    return F.kl_div(F.log_softmax(model(x), 1), taught, reduction="batchmean")


def attended(model: nn.Module, x: Any, y: Any) -> Any:
    """A bag of instances: its attention is a softmax over them."""
    scores = model(x)
    pooled = (F.softmax(scores[:, :1], 0) * scores).sum(0, keepdim=True)
    return F.cross_entropy(pooled, y[:1])


def actions(model: nn.Module, x: Any, y: Any) -> Any:
    """A policy whose mean is bounded, and its actions are not: by hand, and by PyTorch."""
    mean = model(x).tanh()
    drawn = (mean + torch.randn_like(mean)).detach()
    by_hand = (-(drawn - mean).square() / 2).sum(1)
    known = torch.distributions.Normal(mean, 1.0).log_prob(drawn).sum(1)
    return -((by_hand + known) * (y - 1.5)).mean()


def all_pairs(model: nn.Module, x: Any, y: Any) -> Any:
    """A generator of numbers and their density: each is compared with each real one."""
    made, real = model(x)[:, :1], x[:, 0]
    return (-(made - made.T).square()).exp().mean() - 2 * (-(made - real).square()).exp().mean()


def quantiles(model: nn.Module, x: Any, y: Any) -> Any:
    wanted = y[:, None, None] + torch.randn(SIZE, 1, 4)
    return F.smooth_l1_loss(model(x)[:, :, None], wanted, reduction="none").sum(2).mean()


def documents(model: nn.Module, x: Any, y: Any) -> Any:
    """Those of one query, by four aspects."""
    return F.kl_div(F.log_softmax(model(x), 0), F.softmax(x[:, :4], 0), reduction="sum")


def levels(model: nn.Module, x: Any, y: Any) -> Any:
    """Two channels with four levels each, on maps of 2 × 4."""
    scores = model(x).repeat(1, 16).view(SIZE, 8, 2, 4).view(SIZE, 4, 2, 2, 4)
    return F.cross_entropy(scores, y[:, None, None, None].expand(SIZE, 2, 2, 4))


def axis_from_the_end(model: nn.Module, x: Any, y: Any) -> Any:
    maps = model(x)[:, :, None, None].expand(SIZE, 4, 3, 2)
    return F.nll_loss(F.log_softmax(maps, dim=-3), y[:, None, None].expand(SIZE, 3, 2))


def adversarial(model: nn.Module, x: Any, y: Any) -> Any:
    """Inputs are changed by a derivative without a graph."""
    x.requires_grad_()
    scaled = 2 * x
    (toward,) = torch.autograd.grad(F.cross_entropy(model(scaled), y), x, retain_graph=True)
    return F.cross_entropy(model(scaled + 0.1 * toward.sign()), y)


def steered(model: nn.Module, x: Any, y: Any) -> Any:
    """An action is moved to where its critic, which is given, is higher."""
    action = model(x)[:, :1]
    free = action.detach().requires_grad_()
    better = torch.autograd.grad((1 - (free - x[:, :1]) ** 2).sum(), free)[0]
    return -(better * action).mean()


def separated(model: nn.Module, x: Any, y: Any) -> Any:
    """A penalty on a derivative, which is watched without its graph as well."""
    x.requires_grad_()
    value = model(x)
    (slope(value[:, :1], x, kept=False)[:, :1] * value).mean().item()
    return F.cross_entropy(value, y) + 0.01 * slope(value, x).square().mean()


COPY = net()

HEALTHY: dict[str, Callable[[nn.Module, Any, Any], Any]] = {
    "a gate": lambda m, x, y: F.cross_entropy(m[2](m[0](x) * m[0](x).sigmoid()), y),
    "logarithms of probabilities": lambda m, x, y: (
        -m(x).softmax(1).log().gather(1, y[:, None]).mean()
    ),
    "a logarithm of what is clamped": lambda m, x, y: (
        -m(x).sigmoid().round().clamp(1e-6).log().mean()
    ),
    "a root of squares": lambda m, x, y: ((m(x)[:, 0] - y).square() + 1e-8).sqrt().mean(),
    "the root of a mean": lambda m, x, y: (m(x)[:, 0] - y).square().mean().sqrt(),
    "a detached target": lambda m, x, y: best_action(m, x, y, detached=True),
    "a target of a copy": lambda m, x, y: F.smooth_l1_loss(
        m(x).gather(1, y[:, None])[:, 0], y + 0.9 * COPY(-x).max(1).values
    ),
    "two views": lambda m, x, y: F.mse_loss(m(x), m(x + 0.1)),
    "a multiple that reaches": lambda m, x, y: (
        (40 * m(x)[:, 0].tanh() - 10 * y.float()).square().mean()
    ),
    "the value of an action that reaches": lambda m, x, y: F.mse_loss(
        m(x).tanh().gather(1, y[:, None]), 0.3 * y[:, None].float() - 0.5
    ),
    "the value of an action that is positive": lambda m, x, y: F.mse_loss(
        m(x).relu().gather(1, y[:, None]), -0.1 - 0.01 * y[:, None].float()
    ),
    "noise is subtracted": lambda m, x, y: (
        (x[:, :4] - m(x).relu() - 0.5 * x[:, :4]).square().mean()
    ),
    "a scale that is learned": lambda m, x, y: (
        (m[0].bias[0] * m(x)[:, 0].tanh() - 10 * y.float()).square().mean()
    ),
    "classifier": lambda m, x, y: F.cross_entropy(m(x), y),
    "each prediction beside each label": lambda m, x, y: (
        (m(x)[:, 0][:, None] - y.float()[None]).square().mean()
    ),
    "relu and then another layer": lambda m, x, y: F.cross_entropy(2 * m(x).relu() - 1, y),
    "probabilities of one sample": lambda m, x, y: (
        -torch.distributions.Categorical(m(x[:1]).softmax(1)).log_prob(y[:1]).sum()
    ),
    "attention over a bag of one": lambda m, x, y: attended(m, x[:1], y),
    "log_softmax": lambda m, x, y: F.nll_loss(F.log_softmax(m(x), 1), y),
    "maps": lambda m, x, y: F.nll_loss(F.log_softmax(m(x).view(-1, 4, 1, 1), 1), y[:, None, None]),
    "positions last": lambda m, x, y: F.nll_loss(
        F.log_softmax(m(x).view(-1, 1, 4), 2).transpose(1, 2), y[:, None]
    ),
    "some ignored": lambda m, x, y: F.cross_entropy(m(x), torch.where(y == 0, -100, y)),
    "smoothing": lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1),
    "mixup": lambda m, x, y: F.cross_entropy(m(x), 0.5 * (F.one_hot(y, 4) + 0.5).float()),
    "regression": lambda m, x, y: F.mse_loss(m(x)[:, 0], y.float()),
    "one target for all": lambda m, x, y: F.mse_loss(m(x), torch.tensor(0.5).expand(SIZE, 4)),
    "binary": lambda m, x, y: F.binary_cross_entropy(m(x).sigmoid(), F.one_hot(y, 4).float()),
    "autoencoder": lambda m, x, y: F.l1_loss(m(x).tanh(), x[:, :4].tanh()),
    "rare classes weigh more": lambda m, x, y: F.cross_entropy(
        m(x)[:, :2], rare(x), torch.tensor([1.0, 9.0])
    ),
    "rare ones weigh more": lambda m, x, y: F.binary_cross_entropy_with_logits(
        m(x)[:, 0], rare(x).float(), pos_weight=torch.tensor(15.0)
    ),
    "focal": focal,
    "pairwise": pairwise,
    "contrastive": contrastive,
    "cosines with a temperature": lambda m, x, y: F.cross_entropy(
        cosines(m(x), m(x + 0.1)) / 0.1, torch.arange(2 * SIZE)
    ),
    "adversarial": adversarial,
    "steered": steered,
    "separated": separated,
    "equation": lambda m, x, y: decay(nn.Sequential(m, nn.Tanh()), x),
    "positive samples first": lambda m, x, y: F.cross_entropy(
        m(x.repeat(4, 1)).repeat(1, 4), y.repeat(4) * 0
    ),
    "masked": masked,
    "distilled": distilled,
    "attended": attended,
    "actions": actions,
    "all pairs": all_pairs,
    "distances between all": lambda m, x, y: (m(x)[:, None] - x[:, :4]).square().mean(),
    "scores of all by all labels": lambda m, x, y: (m(x)[:, 0].unsqueeze(1) * y).sigmoid().mean(),
    "the same frequencies for all": lambda m, x, y: (
        (m(x).mean(1, keepdim=True) * torch.arange(float(SIZE))).sin().mean()
    ),
    "a mask of maps": lambda m, x, y: (
        m(x).view(-1, 1, 2, 2).square() * (x[:, :4].view(-1, 1, 2, 2) > 0)
    ).mean(),
    "quantiles": quantiles,
    "labels that are padded with the blank": lambda m, x, y: F.ctc_loss(
        m(x).view(-1, 2, 2).log_softmax(2).permute(1, 0, 2),
        F.pad(torch.ones_like(y)[:, None], (0, 3)),
        torch.full((len(x),), 2),
        torch.ones(len(x), dtype=torch.long),
    ),
    "documents": documents,
    "levels": levels,
    "axis from the end": axis_from_the_end,
    "noise below zero": lambda m, x, y: F.mse_loss(
        F.softplus(m(x)[:, 0]), y + 0.1 * torch.randn(SIZE)
    ),
    "actions of a policy": lambda m, x, y: (
        -(m(x).log_softmax(1).gather(1, y[:, None])[:, 0] * x[:, 3]).mean()
    ),
    "roots of positive numbers": lambda m, x, y: F.softplus(m(x)).sqrt().mean(),
    "quotients of positive numbers": lambda m, x, y: (
        m(x)[:, 0] / (x[:, 0] > 0).float().clamp(min=1e-8) * 1e-8 + m(x)[:, 1] / 0.5
    ).mean(),
    "a column of weights for each class": lambda m, x, y: (y[:, None] * m(x).square()).mean(),
    "shares of classes": lambda m, x, y: F.cross_entropy(
        m(x), (one_hot(y, 4) + one_hot(3 - y, 4)) / 2
    ),
    "one class, or none": lambda m, x, y: F.cross_entropy(m(x), one_hot(y, 4) * (x[:, :1] > 0)),
    "partners among all samples": lambda m, x, y: F.cross_entropy(
        m(x) @ m(x).T, (y[:, None] == y).float()
    ),
    "accumulated": lambda m, x, y: sum(
        F.cross_entropy(m(part), of) / 2 for part, of in zip(x.chunk(2), y.chunk(2), strict=True)
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_sound_training_breaks_none(name: str, run: Path) -> None:
    assert train(run, net(), HEALTHY[name], steps=70) == {}


def classify(model: nn.Module, x: Any, y: Any) -> Any:
    return F.cross_entropy(model(x), y)


def test_gradients_that_nobody_clears(run: Path) -> None:
    assert set(train(run, net(), classify, zero=False)) == {"gradients_not_cleared"}


@pytest.mark.parametrize(
    ("cleared", "expected"),
    [("never", {"gradients_not_cleared"}), ("before", set()), ("after", set()), ("late", set())],
)
def test_accumulated_gradients_that_nobody_clears(
    cleared: str, expected: set[str], run: Path
) -> None:
    """Each update has three backward passes; ``late``: those before the last one are dropped."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(30):
            if cleared == "before":
                optimizer.zero_grad(set_to_none=False)
            for part in range(3):
                x = torch.randn(SIZE, 8)
                loss = classify(model, x, (x[:, 0] > 0).long()) / 3
                if cleared == "late" and part == 2:
                    optimizer.zero_grad(set_to_none=False)
                loss.backward()
            optimizer.step()
            if cleared == "after":
                optimizer.zero_grad()
        assert hook.stats.errors == 0
    assert set(broken(run)) == expected


@pytest.mark.parametrize("zero", [False, True])
def test_gradients_that_nobody_clears_before_a_closure_without_any(zero: bool, run: Path) -> None:
    """Lightning's manual optimization calls optimizers so."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    step = optimizer.step
    optimizer.step = lambda: step(lambda: None)  # type: ignore[assignment, misc]
    expected = set() if zero else {"gradients_not_cleared"}
    assert set(train(run, model, classify, optimizer=optimizer, zero=zero)) == expected


@pytest.mark.parametrize(
    ("kind", "decay", "expected"),
    [
        (torch.optim.Adam, 0.5, {"weight_decay_too_large"}),
        (torch.optim.SGD, 0.2, {"weight_decay_too_large"}),
        (torch.optim.SGD, 0.01, set()),
        (torch.optim.AdamW, 0.5, set()),
    ],
)
def test_the_decay_of_weights(kind: Any, decay: float, expected: set[str], run: Path) -> None:
    model = net()
    optimizer = kind(model.parameters(), 1e-3, weight_decay=decay)
    assert set(train(run, model, classify, optimizer=optimizer)) == expected


@pytest.mark.parametrize(
    ("dtype", "eps", "expected"),
    [
        (torch.float16, 1e-8, {"eps_zero_in_half_precision"}),
        (torch.float16, 1e-4, set()),
        (torch.bfloat16, 1e-8, set()),
        (torch.float32, 1e-8, set()),
    ],
)
def test_an_eps_that_is_zero_in_half_precision(
    dtype: torch.dtype, eps: float, expected: set[str], run: Path
) -> None:
    model = net().to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, eps=eps)
    found = train(run, model, lambda net, x, y: classify(net, x.to(dtype), y), optimizer=optimizer)
    assert set(found) == expected


@pytest.mark.parametrize(
    ("dtype", "rate", "expected"),
    [
        (torch.bfloat16, 1e-5, {"updates_rounded_to_zero"}),
        (torch.bfloat16, 1e-2, set()),
        (torch.float32, 1e-5, set()),
    ],
)
def test_updates_that_are_rounded_to_zero(
    dtype: torch.dtype, rate: float, expected: set[str], run: Path
) -> None:
    torch.manual_seed(0)
    model = net().to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    found = train(
        run, model, lambda m, x, y: classify(m, x.to(dtype), y), optimizer=optimizer, steps=70
    )
    assert set(found) == expected
    assert all(place.startswith("test_contracts.py:") for place in found.values())


def test_weights_that_change_after_a_long_warm_up(run: Path) -> None:
    """The rate rises from nearly 0, as in a long warm-up."""
    model = net().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-6)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: 1.0 if at < 70 else 1e4)

    optimizer.register_step_post_hook(lambda *_: schedule.step())

    def loss(m: Any, x: Any, y: Any) -> Any:
        return classify(m, x.bfloat16(), y)

    assert train(run, model, loss, optimizer=optimizer, steps=100) == {}


@pytest.mark.parametrize(
    ("momentum", "expected"),
    [(0.99, {"batch_norm_momentum_too_large"}), (0.1, set()), (None, set())],
)
def test_the_momentum_of_batch_normalisation(
    momentum: float | None, expected: set[str], run: Path
) -> None:
    assert set(train(run, net(4, nn.BatchNorm1d(4, momentum=momentum)), classify)) == expected


@pytest.mark.parametrize(
    ("momentum", "loaded", "steps", "expected"),
    [
        (1e-3, False, 120, {"batch_norm_momentum_too_small"}),
        (0.1, False, 120, set()),
        (1e-3, True, 120, set()),  # the statistics of an earlier training
        (1e-3, False, 40, set()),  # a trial
    ],
)
def test_running_statistics_lag(
    momentum: float, loaded: bool, steps: int, expected: set[str], run: Path
) -> None:
    model, updates = net(4, nn.BatchNorm1d(4, momentum=momentum)), 0
    if loaded:
        model[-1].running_mean += 0.1

    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        nonlocal updates
        updates += 1
        if updates % 20 == 0:
            model.eval()
            with torch.no_grad():
                classify(model, x, y)
            model.train()
        return classify(model, x, y)

    assert set(train(run, model, loss, steps=steps)) == expected


def test_a_critic_that_is_updated_before_the_model_clears_its_gradients(run: Path) -> None:
    """The loop of pix2pix: the generator's gradients of the last step are there until then."""
    made, critic = net(8), net(1)
    ours, other = (torch.optim.Adam(each.parameters(), 1e-3) for each in (made, critic))
    with TorchHook.attach(made, run, capture=ASKED, save_interval=5, max_overhead=None):
        for _ in range(40):
            fake = made(torch.randn(SIZE, 8))
            other.zero_grad()
            F.softplus(critic(fake.detach())).mean().backward()
            other.step()
            ours.zero_grad()
            F.softplus(-critic(fake)).mean().backward()
            ours.step()
    assert broken(run) == {}


def test_a_generator_that_is_cut_off(run: Path) -> None:
    parts = nn.ModuleDict({"generator": net(8), "critic": net(1)})
    ours = [torch.optim.Adam(each.parameters(), 1e-3) for each in parts.values()]
    with TorchHook.attach(parts, run, capture=ASKED, save_interval=5, max_overhead=None):
        for step in range(60):
            made = parts["generator"](torch.randn(SIZE, 8)).detach()
            optimizer = ours[step % 2]
            optimizer.zero_grad()
            F.softplus(parts["critic"](made)).mean().backward()
            optimizer.step()
    assert set(broken(run)) == {"optimizer_without_gradient"}


def test_a_learning_rate_of_zero(run: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    assert set(train(run, model, classify, optimizer=optimizer)) == {"learning_rate_zero"}


def test_a_part_whose_learning_rate_is_zero_at_first(run: Path) -> None:
    model = net()
    first, last = (torch.optim.SGD(model[at].parameters(), 1e-2) for at in (0, 2))
    first.param_groups[0]["lr"] = 0.0

    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        first.step()
        return classify(model, x, y)

    assert train(run, model, loss, optimizer=last, steps=70) == {}


@pytest.mark.parametrize("later", [0.0, 1e-2])
def test_a_part_whose_learning_rate_stays_zero(later: float, run: Path) -> None:
    model = net()
    first, last = (torch.optim.SGD(model[at].parameters(), 1e-2) for at in (0, 2))
    first.param_groups[0]["lr"] = 0.0
    updates = 0

    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        nonlocal updates
        updates += 1
        if updates == 90:
            first.param_groups[0]["lr"] = later
        first.step()
        return classify(model, x, y)

    found = train(run, model, loss, optimizer=last, steps=151)
    assert [*found] == ([] if later else ["learning_rate_zero"])


def test_an_optimizer_that_begins_later(run: Path) -> None:
    model = net()
    later = torch.optim.SGD(model[2].parameters(), 1e-2)
    assert train(run, model, classify, optimizer=torch.optim.SGD(model[0].parameters(), 1e-2)) == {}
    later.step()


def test_outputs_that_vary_by_intent(run: Path) -> None:
    """Dropout alone is in training mode, and shows how sure the model is."""
    model, updates = net(4, nn.Dropout(), nn.Linear(4, 4)), 0

    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        nonlocal updates
        updates += 1
        if updates % 20 == 0:
            model.eval()
            model[-2].train()
            with torch.no_grad():
                for _ in range(10):
                    classify(model, x, y)
            model.train()
        return classify(model, x, y)

    assert train(run, model, loss, steps=70) == {}


def test_a_warm_up_from_zero(run: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 100)

    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        schedule.step()
        return classify(model, x, y)

    assert train(run, model, loss, optimizer=optimizer) == {}


def test_a_model_that_learns_to_copy_its_input(run: Path) -> None:
    model = nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 8))
    optimizer = torch.optim.Adam(model.parameters(), 3e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None):
        for _ in range(100):
            tokens = torch.randint(0, 8, (SIZE, 4))
            optimizer.zero_grad()
            F.cross_entropy(model(tokens).flatten(0, 1), tokens.clone().flatten()).backward()
            optimizer.step()
    assert set(broken(run)) == {"labels_equal_inputs", "labels_copied", "targets_not_shifted"}


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (lambda y: 3 - 2 * y, {"label_among_inputs"}),
        (lambda y: y + 0.1 * torch.randn_like(y), set()),
    ],
    ids=["a multiple of it", "a column that is near it"],
)
def test_a_label_among_the_inputs(run: Path, column: Any, expected: set[str]) -> None:
    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        label = y.float()
        table = torch.cat([x[:, 1:], column(label)[:, None]], 1)
        return F.mse_loss(model(table)[:, 0], label)

    assert set(train(run, net(), loss)) == expected


@pytest.mark.parametrize("columns", [1, 2])
def test_columns_that_are_to_be_found_again(columns: int, run: Path) -> None:
    """Several labels are of the inputs; or one is, and a view of them."""

    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        table = torch.cat([x[:, 2:], y.float()[:, None], (y % 2).float()[:, None]], 1)
        found, labels = model(table), table[:, 6:] if columns == 1 else table[:, 6:].clone()
        return sum(F.mse_loss(found[:, at], labels[:, at]) for at in range(columns))

    assert train(run, net(), loss) == {}


class Stack(nn.Module):
    """Layers in a list, of Python or of PyTorch."""

    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.first, self.layers = nn.Linear(8, 8), layers

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x.relu())
        return x


@pytest.mark.parametrize("registered", [False, True])
def test_layers_in_a_list(registered: bool, run: Path) -> None:
    layers = [nn.Linear(8, 8), nn.Linear(8, 4)]
    model = Stack(nn.ModuleList(layers) if registered else layers)
    assert set(train(run, model, classify)) == (set() if registered else {"layer_not_registered"})


def test_layers_in_a_list_that_are_held_by_an_optimizer(run: Path) -> None:
    layers = [nn.Linear(8, 4)]
    model = Stack(layers)
    optimizer = torch.optim.SGD([*model.parameters(), *layers[0].parameters()], 1e-2)
    assert train(run, model, classify, optimizer=optimizer) == {}


def test_a_teacher_in_a_list(run: Path) -> None:
    teacher = net(4)
    model = Coder(cut=False)
    model.teacher = [teacher]

    def loss(model: Any, x: Any, _: Any) -> Any:
        with torch.no_grad():
            aim = teacher(x).softmax(1)
        return F.cross_entropy(model(x), aim)

    assert train(run, model, loss) == {}


class Dropping(nn.Module):
    """Dropout as a function, which depends on the mode only if it gets it."""

    def __init__(self, *, by_mode: bool) -> None:
        super().__init__()
        self.body, self.by_mode = nn.Linear(8, 4), by_mode

    def forward(self, x: Any) -> Any:
        x = F.dropout(x, 0.2, self.training if self.by_mode else True)
        return self.body(x)


@pytest.mark.parametrize("by_mode", [False, True])
def test_dropout_in_evaluations(by_mode: bool, run: Path) -> None:
    def loss(model: Any, x: Any, y: Any) -> Any:
        model.eval()
        with torch.no_grad():
            F.cross_entropy(model(x), y)
        model.train()
        return F.cross_entropy(model(x), y)

    contracts = set(train(run, Dropping(by_mode=by_mode), loss))
    assert contracts == (set() if by_mode else {"dropout_in_evaluation"})


class Coder(nn.Module):
    """Scores by a code, which may be detached, and may have another way to the loss."""

    def __init__(self, *, cut: bool, both: bool = False) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 6), nn.Linear(6, 4)
        self.cut, self.both = cut, both

    def forward(self, x: Any) -> Any:
        code = self.encoder(x)
        scores = self.decoder(code.detach() if self.cut else code)
        return scores + code[:, :4] if self.both else scores


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ((nn.Dropout(0.9), nn.Linear(4, 4)), {"dropout_too_large"}),
        ((nn.Dropout(0.8), nn.Linear(4, 4)), set()),
        ((nn.Dropout(0.1),), {"dropout_on_output"}),
        ((nn.Dropout(0.1), nn.Flatten()), {"dropout_on_output"}),
        ((nn.Dropout(0.0),), set()),
    ],
)
def test_dropout_in_the_wrong_place(
    layers: tuple[nn.Module, ...], expected: set[str], run: Path
) -> None:
    model = net(4, *layers)
    assert set(train(run, model, lambda model, x, y: F.cross_entropy(model(x), y))) == expected


def test_dropout_of_inputs_and_a_loss_without_gradients(run: Path) -> None:
    def loss(model: Any, x: Any, y: Any) -> Any:
        scores = model(x)
        F.nll_loss(scores.detach().log_softmax(1), y)
        return F.cross_entropy(scores, y)

    assert train(run, nn.Sequential(nn.Dropout(0.1), net(4)), loss) == {}


@pytest.mark.parametrize(
    ("cut", "both", "contracts"),
    [(True, False, {"part_detached"}), (False, False, set()), (True, True, set())],
)
def test_a_part_that_is_cut_off(cut: bool, both: bool, contracts: set[str], run: Path) -> None:
    assert set(train(run, Coder(cut=cut, both=both), classify)) == contracts


def test_a_part_that_is_updated_in_another_way(run: Path) -> None:
    """A moving average gets no gradient, and is in the optimizer with all the others."""
    model = Coder(cut=True)

    def loss(model: Any, x: Any, y: Any) -> Any:
        with torch.no_grad():
            model.encoder.weight.mul_(0.99)
            model.encoder.bias.mul_(0.99)
        return F.cross_entropy(model(x), y)

    assert train(run, model, loss) == {}


class LastState(nn.Module):
    """Scores of four classes by the last state of a recurrent layer over 4 steps of 2 numbers."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.cell = nn.LSTM(2, 8, batch_first=batch_first)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.cell(x)[0][:, -1])


@pytest.mark.parametrize("batch_first", [False, True])
def test_the_axis_of_time(batch_first: bool, run: Path) -> None:
    model = nn.Sequential(nn.Unflatten(1, (4, 2)), LastState(batch_first=batch_first))
    assert set(train(run, model, classify)) == (set() if batch_first else {"samples_mixed"})


class Reader(nn.Module):
    """Classes of the four columns of a picture, by a recurrent layer over them."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.cell = nn.LSTM(2, 8, batch_first=batch_first)
        self.head = nn.Linear(8, 4)

    def forward(self, pictures: Any) -> Any:
        columns = pictures[:, 0].permute(2, 0, 1)
        return self.head(self.cell(columns)[0]).permute(1, 2, 0)


@pytest.mark.parametrize("batch_first", [False, True])
def test_the_axis_of_the_columns_of_pictures(batch_first: bool, run: Path) -> None:
    def loss(model: Any, x: Any, y: Any) -> Any:
        pictures = x.view(-1, 1, 2, 4)
        return F.cross_entropy(model(pictures), (pictures[:, 0] > 0).sum(1))

    found = train(run, Reader(batch_first=batch_first), loss)
    assert set(found) == ({"samples_mixed"} if batch_first else set())


class Positions(nn.Module):
    """Attention over four steps of two numbers, with a table of positions."""

    def __init__(self, *, over_batch: bool, batch_first: bool = True) -> None:
        super().__init__()
        table = torch.randn(64, 2)
        self.register_buffer("table", table[:, None] if over_batch else table[None])
        self.over_batch, self.batch_first = over_batch, batch_first
        self.attention = nn.MultiheadAttention(2, 1, batch_first=batch_first)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = x.view(-1, 4, 2) if self.batch_first else x.view(-1, 4, 2).transpose(0, 1)
        x = x + (self.table[: len(x)] if self.over_batch else self.table[:, : x.shape[1]])
        x = self.attention(x, x, x)[0]
        return self.head((x if self.batch_first else x.transpose(0, 1)).flatten(1))


@pytest.mark.parametrize(
    ("over_batch", "batch_first", "expected"),
    [
        (True, True, {"positions_along_batch"}),
        (False, True, set()),
        (True, False, set()),  # steps stand before samples
    ],
)
def test_the_axis_of_positions(
    over_batch: bool, batch_first: bool, expected: set[str], run: Path
) -> None:
    model = Positions(over_batch=over_batch, batch_first=batch_first)
    assert set(train(run, model, classify)) == expected


class Packed(LastState):
    """By sequences of changing length."""

    def forward(self, x: Any) -> Any:
        lengths = torch.arange(len(x)) % 4 + 1
        packed = nn.utils.rnn.pack_padded_sequence(
            x if self.cell.batch_first else x.transpose(0, 1),
            lengths,
            batch_first=self.cell.batch_first,
            enforce_sorted=False,
        )
        return self.head(self.cell(packed)[1][0][-1])


@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences(batch_first: bool, run: Path) -> None:
    model = nn.Sequential(nn.Unflatten(1, (4, 2)), Packed(batch_first=batch_first))
    assert train(run, model, classify) == {}


class Sparse(nn.Module):
    """Probabilities of nodes by a matrix of features that are mostly 0."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(8, 4))

    def forward(self, x: Any) -> Any:
        return torch.sparse.mm(x, self.kernel).softmax(1)


def test_sparse_inputs(run: Path) -> None:
    found = train(run, Sparse(), lambda m, x, y: F.cross_entropy(m(x.relu().to_sparse()), y))
    assert set(found) == {"probabilities_as_logits", "softmax_twice"}


@pytest.mark.parametrize("turned", [False, True])
def test_classes_and_positions(turned: bool, run: Path) -> None:
    """Scores of shape (N, C, positions) have to be permuted to be rows of classes."""
    model = nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3, padding=1))

    def loss(model: nn.Module, x: Any, _: Any) -> Any:
        scores = model(x)
        rows = scores.permute(0, 2, 1).reshape(-1, 4) if turned else scores.view(-1, 4)
        return F.cross_entropy(rows, (x > 0).long().flatten())

    assert set(train(run, model, loss)) == (set() if turned else {"classes_not_permuted"})


class Gated(nn.Module):
    """Softmax gives the weights of a sum, and no layer follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Softmax(1))
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.gate(x) * x)


def test_a_softmax_that_weights_is_none_between_layers(run: Path) -> None:
    assert train(run, Gated(), classify, steps=70) == {}


def test_a_layer_that_no_optimizer_has(run: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model[0].parameters(), 1e-2)
    assert set(train(run, model, classify, optimizer=optimizer)) == {"parameter_in_no_optimizer"}


@pytest.mark.parametrize(
    ("again", "expected"), [(True, {"parameter_in_no_optimizer"}), (False, set())]
)
def test_a_layer_that_is_made_in_each_forward_pass(
    again: bool, expected: set[str], run: Path
) -> None:
    model = net()

    def loss(m: Any, x: Any, y: Any) -> Any:
        m[2] = nn.Linear(32, 4) if again else m[2]
        return classify(m, x, y)

    assert set(train(run, model, loss)) == expected


def test_only_the_head_is_tuned(run: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model[2].parameters(), 1e-2)
    assert train(run, model, classify, optimizer=optimizer) == {}


def test_the_optimizer_of_another_model(run: Path) -> None:
    optimizer = torch.optim.SGD(net().parameters(), 1e-2)
    found = train(run, net(), classify, optimizer=optimizer)
    assert set(found) == {"optimizer_of_another_model"}


def test_an_optimizer_that_was_made_before_a_layer_was_replaced(run: Path) -> None:
    model = net()
    model[0].requires_grad_(requires_grad=False)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    model[2] = nn.Linear(model[2].in_features, model[2].out_features)
    found = train(run, model, classify, optimizer=optimizer)
    assert "optimizer_of_another_model" in found
    assert "no_gradient" not in found


def test_copies_of_parameters_that_are_copied_back(run: Path) -> None:
    model, copy = net(), net()
    optimizer = torch.optim.SGD(copy.parameters(), 1e-2)

    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        for own, other in zip(model.parameters(), copy.parameters(), strict=True):
            other.grad = own.grad
            own.data.copy_(other.data + 0.01)
            own.grad = None
        return classify(model, x, y)

    assert "optimizer_of_another_model" not in train(run, model, loss, optimizer=optimizer)


def test_a_loss_that_does_not_come_from_the_model(run: Path) -> None:
    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        scores = model(x).detach().requires_grad_()
        return F.cross_entropy(scores, y)

    assert set(train(run, net(), loss)) == {"no_gradient"}


def test_an_optimizer_of_frozen_parameters(run: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model[0].parameters(), 1e-2)
    model[0].requires_grad_(requires_grad=False)
    found = train(run, model, classify, optimizer=optimizer)
    assert "optimizer_holds_only_frozen" in found
    assert "no_gradient" not in found


def test_an_update_without_gradients(run: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5):
        for _ in range(30):
            F.cross_entropy(model(torch.randn(8, 8)), torch.randint(4, (8,))).backward()
            optimizer.zero_grad()
            optimizer.step()
    assert set(broken(run)) == {"update_without_backward"}


def test_a_training_in_eval_mode(run: Path) -> None:
    model = net(4, nn.Dropout(), nn.Linear(4, 4)).eval()
    assert set(train(run, model, classify)) == {"eval_mode_while_training"}


def test_a_training_in_eval_mode_where_that_changes_nothing(run: Path) -> None:
    assert train(run, net().eval(), classify) == {}


@pytest.mark.parametrize(
    ("evaluates", "judges", "expected"),
    [
        (True, True, set()),
        (False, True, {"train_mode_while_evaluating"}),
        (False, False, set()),  # a memory is filled
    ],
)
def test_an_evaluation_in_train_mode(
    evaluates: bool, judges: bool, expected: set[str], run: Path
) -> None:
    model = net(4, nn.Dropout(), nn.Linear(4, 4))
    updates = 0

    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        nonlocal updates
        updates += 1
        if updates % 40 == 0:
            model.train(not evaluates)
            with torch.no_grad():
                for _ in range(4):
                    outputs = model(x)
                    if judges:
                        F.cross_entropy(outputs, y)
            model.train()
        return classify(model, x, y)

    assert set(train(run, model, loss, steps=100)) == expected


@pytest.mark.parametrize(
    ("evaluates", "passes", "expected"),
    [
        (False, 4, {"train_mode_while_evaluating"}),
        (False, 1, set()),  # the loss after the last update
        (True, 4, set()),
    ],
)
def test_a_final_test_in_train_mode(
    evaluates: bool, passes: int, expected: set[str], run: Path
) -> None:
    model = net(4, nn.Dropout(), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None):
        for _ in range(30):
            classify(model, torch.randn(8, 8), torch.randint(4, (8,))).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.train(not evaluates)
        with torch.no_grad():
            for _ in range(passes):
                (model(torch.randn(8, 8)).argmax(1) == torch.randint(4, (8,))).sum().item()
    assert set(broken(run)) == expected


def test_eval_mode_that_stays_after_an_evaluation(run: Path) -> None:
    model = net(4, nn.Dropout(), nn.Linear(4, 4))
    updates = 0

    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        nonlocal updates
        updates += 1
        if updates == 80:
            model.eval()
        return classify(model, x, y)

    assert set(train(run, model, loss, steps=100)) == {"eval_mode_while_training"}


def test_opponents_that_take_turns(run: Path) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = nn.Linear(4, 8), net(1)

        def forward(self, x: Any) -> Any:
            return self.critic(x)

    model, criterion = Both(), nn.BCEWithLogitsLoss()
    of_generator = torch.optim.Adam(model.generator.parameters(), 1e-3)
    of_critic = torch.optim.Adam(model.critic.parameters(), 1e-3)
    ones, zeros = torch.ones(SIZE, 1), torch.zeros(SIZE, 1)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=2, max_overhead=None):
        for _ in range(70):
            fake = model.generator(torch.randn(SIZE, 4))
            of_critic.zero_grad()
            real = torch.randn(SIZE, 8) + 1
            (criterion(model(fake.detach()), zeros) + criterion(model(real), ones)).backward()
            of_critic.step()
            of_generator.zero_grad()
            criterion(model(fake), ones).backward()
            of_generator.step()
    assert broken(run) == {}


def test_an_opponent_that_is_only_shown_copies(run: Path) -> None:
    generator, judge = nn.Linear(4, 8), nn.Linear(8, 1)
    of_judge = torch.optim.SGD(judge.parameters(), 0.01)
    of_generator = torch.optim.SGD(generator.parameters(), 0.01)
    criterion, ones = nn.BCEWithLogitsLoss(), torch.ones(SIZE, 1)
    with TorchHook.attach(generator, run, capture=ASKED, save_interval=5, max_overhead=None):
        for _ in range(70):
            fake = generator(torch.randn(SIZE, 4))
            of_judge.zero_grad()
            real = torch.randn(SIZE, 8) + 1
            of_fakes, of_data = judge(fake.detach()), judge(real)
            (criterion(of_fakes, 0 * ones) + criterion(of_data, ones)).backward()
            of_judge.step()
            of_generator.zero_grad()
            criterion(judge(fake.detach()), ones).backward()
            of_generator.step()
    assert set(broken(run)) == {"optimizer_without_gradient"}


def critic(found: Any, wanted: Any) -> Any:
    """Of scores of real and of made samples: there is nothing to predict."""
    return found[: SIZE // 2].mean() - found[SIZE // 2 :].mean()


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda found, wanted: (found - wanted).mean().square(), {"errors_cancel"}),
        (lambda found, wanted: (wanted - found).sum().abs(), {"errors_cancel"}),
        (lambda found, wanted: (found - wanted).square().mean(), set()),
        (lambda found, wanted: (found - wanted - 9).abs().mean(), set()),  # all of one sign
        (lambda found, wanted: 1e-3 * (wanted + 300 - found).abs().mean(), set()),
        (lambda found, wanted: (found.mean(0) - wanted.mean(0)).square().mean(), set()),  # moments
        (lambda found, wanted: found.square().mean(), set()),
        (critic, set()),
    ],
)
def test_errors_that_cancel(loss: Callable[[Any, Any], Any], expected: set[str], run: Path) -> None:
    model = net(2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for _ in range(40):
            x = torch.randn(SIZE, 8)
            optimizer.zero_grad()
            loss(model(x), x[:, :2] * x[:, 2:4]).backward()
            optimizer.step()
    assert set(broken(run)) == expected
