"""Weights and gradients, as optimizers of all kinds get them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin import create_trial
from tocsin.model import Mode, Role
from tocsin_hooks.torch import TorchHook
from torch import nn

from .conftest import Net, Written, hooks_of

Read = Callable[[Path], Written]
EVERY = {"save_interval": 1, "max_overhead": 1.0}
TRAIN = Mode.TRAIN
FIRST = TRAIN, 0


def l2(entry: Any) -> float:
    return float(entry.summary.l2)


def norm(tensor: Any) -> Any:
    return pytest.approx(float(tensor.detach().double().norm()), rel=1e-4)


def test_frozen_and_unused_parameters(net: Net, run: Path, train: Any, written: Read) -> None:
    net.fc1.requires_grad_(False)
    net.unused = nn.Linear(2, 2)
    trained = [each for each in net.parameters() if each.requires_grad]
    with TorchHook.attach(net, run, **EVERY) as hook:
        train(net, 2, torch.optim.SGD(trained, 0.1))
    found = written(run)[TRAIN, 1]
    assert {"Net_fc1.weight", "Net_unused.weight", "Net_fc2.weight"} <= set(found)
    gradients = {name for name, each in found.items() if each.role == Role.GRADIENT}
    assert gradients == {"gradient/Net_fc2.weight", "gradient/Net_fc2.bias"}
    assert hook.stats.errors == 0


def test_tied_weights_count_once(run: Path, written: Read) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    with TorchHook.attach(model, run, **EVERY):
        model(torch.ones(1, 3)).sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    found = written(run)[FIRST]
    assert "Sequential_0.weight" in found
    assert "Sequential_2.weight" not in found
    assert l2(found["gradient/Sequential_0.weight"]) == norm(model[0].weight.grad)


@pytest.mark.parametrize(
    ("module", "name", "role"),
    [
        (nn.Linear(2, 2), "weight", Role.WEIGHT),
        (nn.Linear(2, 2), "bias", Role.BIAS),
        (nn.LSTM(2, 2), "weight_ih_l0", Role.WEIGHT),
        (nn.LSTM(2, 2), "bias_hh_l0", Role.BIAS),
        (nn.MultiheadAttention(2, 1), "in_proj_weight", Role.WEIGHT),
        (nn.MultiheadAttention(2, 1), "in_proj_bias", Role.BIAS),
        (nn.BatchNorm1d(2), "weight", Role.WEIGHT),
        (nn.PReLU(), "weight", Role.WEIGHT),
        (nn.ParameterDict({"scale": nn.Parameter(torch.ones(2))}), "scale", Role.WEIGHT),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_roles_of_parameters(
    module: nn.Module, name: str, role: Role, run: Path, written: Read
) -> None:
    model = nn.Sequential(nn.Linear(1, 1))
    model.add_module("part", module)
    model.forward = lambda x: model[0](x)
    with TorchHook.attach(model, run, **EVERY):
        model(torch.ones(1, 1)).sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    assert written(run)[FIRST][f"Sequential_part.{name}"].role == role


def test_gradients_are_accumulated_clipped_and_unscaled(
    net: Net, run: Path, batch: Any, written: Read
) -> None:
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    norms = []
    with TorchHook.attach(net, run, **EVERY):
        for _ in range(2):
            optimizer.zero_grad()
            for part in range(4):
                rows = slice(2 * part, 2 * part + 2)
                loss = nn.CrossEntropyLoss()(net(batch[0][rows]), batch[1][rows]) / 4
                loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.01)
            norms.append(net.fc1.weight.grad.norm().item())
            optimizer.step()
    steps = written(run)
    assert list(steps) == [(TRAIN, 0), (TRAIN, 1)]
    for found, expected in zip(steps.values(), norms, strict=True):
        assert l2(found["gradient/Net_fc1.weight"]) == pytest.approx(expected, rel=1e-4)
        assert found["Net_input_0"].shape == (2, 4)
        assert "relu1_output_0_1" not in found


def test_the_loss_of_a_step_is_the_mean_of_its_micro_batches(
    net: nn.Module, run: Path, batch: Any
) -> None:
    losses = []
    with TorchHook.attach(net, run, accumulate=4, **EVERY) as hook:
        for part in range(4):
            losses.append(nn.CrossEntropyLoss()(net(batch[0][part:]), batch[1][part:]))
            hook.record_loss(losses[-1] * 2, "double")
    expected = torch.stack(losses).mean().item()
    trial = create_trial(str(run))
    assert trial.tensor("CrossEntropyLoss_output_0").value(0) == pytest.approx(expected)
    assert trial.tensor("double").value(0) == pytest.approx(2 * expected)
    assert trial.steps() == [0]


@pytest.mark.parametrize("fused", [False, True])
def test_amp_with_loss_scaling(net: Net, run: Path, batch: Any, written: Read, fused: bool) -> None:
    """The second step overflows, and the optimizer is skipped."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, fused=fused)
    norms = []
    with TorchHook.attach(net, run, **EVERY) as hook:
        for step in range(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = nn.CrossEntropyLoss()(net(batch[0]), batch[1])
            scaler.scale(loss * (float("inf") if step == 1 else 1)).backward()
            norms.append(net.fc1.weight.grad.norm().item() / scaler.get_scale())
            scaler.step(optimizer)
            scaler.update()
    steps = written(run)
    assert len(steps) == 4
    assert hook.stats.errors == 0
    for step in (0, 2, 3):
        found = steps[TRAIN, step]["gradient/Net_fc1.weight"]
        assert l2(found) == pytest.approx(norms[step], rel=1e-3)
    if not fused:  # a fused optimizer decides by itself
        assert not [name for name in steps[TRAIN, 1] if name.startswith(("Net_fc", "gradient"))]
    assert "CrossEntropyLoss_output_0" in steps[TRAIN, 1]


def test_overflow_at_the_very_start(net: Net, run: Path, batch: Any, written: Read) -> None:
    """While the scale is found, no optimizer has been seen: it is not a loop without one."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with TorchHook.attach(net, run, **EVERY):
        for step in range(5):
            optimizer.zero_grad()
            loss = nn.CrossEntropyLoss()(net(batch[0]), batch[1])
            scaler.scale(loss * (float("inf") if step < 3 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
    steps = written(run)
    assert len(steps) == 5
    assert [step for (_, step), found in steps.items() if "gradient/Net_fc1.weight" in found] == [
        3,
        4,
    ]


@pytest.mark.parametrize("whole", [False, True], ids=["autocast", "bfloat16"])
def test_bfloat16(net: Net, run: Path, batch: Any, written: Read, whole: bool) -> None:
    if whole:
        net.bfloat16()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    x = batch[0].bfloat16() if whole else batch[0]
    with TorchHook.attach(net, run, **EVERY) as hook, torch.autocast("cpu", torch.bfloat16):
        nn.CrossEntropyLoss()(net(x), batch[1]).backward()
        optimizer.step()
    found = written(run)[FIRST]
    assert hook.stats.errors == 0
    assert found["relu1_output_0"].dtype == "bfloat16"
    assert found["Net_fc1.weight"].dtype == ("bfloat16" if whole else "float32")
    assert l2(found["gradient/Net_fc1.weight"]) == norm(net.fc1.weight.grad)


def test_a_loop_that_updates_by_itself(net: Net, run: Path, batch: Any, written: Read) -> None:
    before, initial = hooks_of(net), net.fc1.weight.detach().clone()
    with TorchHook.attach(net, run, **EVERY):
        for _ in range(12):
            weight = net.fc1.weight.detach().clone()
            nn.CrossEntropyLoss()(net(batch[0]), batch[1]).backward()
            gradient = net.fc1.weight.grad.clone()
            with torch.no_grad():
                for each in net.parameters():
                    each -= 0.1 * each.grad
                    each.grad = None
    steps = written(run)
    assert len(steps) == 12
    assert l2(steps[FIRST]["Net_fc1.weight"]) == norm(initial)
    assert l2(steps[TRAIN, 11]["gradient/Net_fc1.weight"]) == norm(gradient)
    assert l2(steps[TRAIN, 11]["Net_fc1.weight"]) == norm(weight)
    assert "gradient/Net_fc1.weight" not in steps[TRAIN, 7]  # it might have been loss scaling
    assert hooks_of(net) == before


def test_a_loop_that_updates_by_itself_with_gradients_that_it_asks_for(
    net: Net, run: Path, batch: Any, written: Read
) -> None:
    before, parameters = hooks_of(net), [*net.parameters()]
    with TorchHook.attach(net, run, **EVERY) as hook:
        for _ in range(12):
            loss = nn.CrossEntropyLoss()(net(batch[0]), batch[1])
            gradients = torch.autograd.grad(loss, parameters)
            for each, gradient in zip(parameters, gradients, strict=True):
                each.data.sub_(0.1 * gradient)
        assert hook.stats.errors == 0
    steps = written(run)
    names = [f"gradient/Net_{name}" for name, _ in net.named_parameters()]
    found = [l2(steps[TRAIN, 11][name]) for name in names]
    assert found == [norm(each) for each in gradients]
    assert hooks_of(net) == before


@pytest.mark.parametrize("name", ["LBFGS", "SGD"])
def test_an_optimizer_that_computes_the_loss_itself(
    name: str, net: Net, run: Path, batch: Any, written: Read
) -> None:
    """As Lightning calls them all."""
    optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(net(batch[0]), batch[1])
        loss.backward()
        return loss

    with TorchHook.attach(net, run, **EVERY) as hook:
        expected = [optimizer.step(closure).item() for _ in range(3)]
    assert hook.stats.errors == 0
    loss = create_trial(str(run)).tensor("CrossEntropyLoss_output_0")
    assert [float(loss.value(step, mode=TRAIN)) for step in range(3)] == expected  # not the search
    steps = written(run)
    assert list(steps) == [(TRAIN, step) for step in range(3)]
    for found in steps.values():
        assert {"gradient/Net_fc1.weight", "Net_fc1.weight", "CrossEntropyLoss_output_0"} <= set(
            found
        )
    assert l2(found["gradient/Net_fc1.weight"]) == norm(net.fc1.weight.grad)


def test_two_optimizers_of_one_model(run: Path, written: Read) -> None:
    """A GAN in one module: each optimizer's step shows its own part."""
    model = nn.ModuleDict({"g": nn.Linear(2, 2), "d": nn.Linear(2, 1)})
    model.forward = lambda x: model["d"](model["g"](x))
    optimizers = [
        torch.optim.Adam(model[part].parameters(), rate) for part, rate in (("g", 0.1), ("d", 0.2))
    ]
    with TorchHook.attach(model, run, **EVERY):
        for step in range(4):
            model.zero_grad()
            model(torch.ones(3, 2)).mean().backward()
            optimizers[step % 2].step()
    steps = written(run)
    gradients = [
        {name[9:] for name in found if name.startswith("gradient/")} for found in steps.values()
    ]
    g = {"ModuleDict_g.weight", "ModuleDict_g.bias"}
    d = {"ModuleDict_d.weight", "ModuleDict_d.bias"}
    assert gradients == [g, d, g, d]
    assert g <= set(steps[TRAIN, 2])
    assert not d & set(steps[TRAIN, 2])
    rates = create_trial(str(run))
    assert rates.tensor("learning_rate").value(0) == pytest.approx(0.1)
    assert rates.tensor("learning_rate_1").value(1) == pytest.approx(0.2)


def test_optimizers_of_other_models_are_none_of_ours(
    net: Net, run: Path, train: Any, written: Read
) -> None:
    other = Net()
    with TorchHook.attach(net, run, **EVERY):
        mine = train(net)
        train(other)  # its loss comes from another model, but nobody can know
        train(net, 1, mine)
    steps = written(run)
    assert list(steps) == [(TRAIN, 0), (TRAIN, 1)]
    assert "learning_rate_1" not in steps[TRAIN, 1]


def test_groups_have_a_learning_rate_each(net: Net, run: Path, batch: Any) -> None:
    optimizer = torch.optim.SGD(
        [
            {"params": net.fc1.parameters(), "lr": 0.1},
            {"params": net.fc2.parameters(), "lr": torch.tensor(0.2)},
        ]
    )
    with TorchHook.attach(net, run, **EVERY):
        nn.CrossEntropyLoss()(net(batch[0]), batch[1]).backward()
        optimizer.step()
    trial = create_trial(str(run))
    assert trial.tensor_names(collection="learning_rates") == ["learning_rate_0", "learning_rate_1"]
    assert trial.tensor("learning_rate_1").value(0) == pytest.approx(0.2)


def test_sparse_gradients(run: Path, written: Read) -> None:
    model = nn.Sequential(nn.Embedding(100, 4, sparse=True))
    with TorchHook.attach(model, run, **EVERY) as hook:
        model(torch.tensor([3, 3, 7])).sum().backward()
        torch.optim.SparseAdam(model.parameters(), 0.1).step()
    found = written(run)[FIRST]["gradient/Sequential_0.weight"]
    assert found.summary.l1 == 12
    assert hook.stats.errors == 0


def test_lazy_modules(run: Path, written: Read) -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with TorchHook.attach(model, run, **EVERY) as hook:
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    steps = written(run)
    assert steps[TRAIN, 0]["Sequential_0.weight"].shape == (4, 3)
    assert "1_output_0" in steps[TRAIN, 1]
    assert hook.stats.errors == 0


def test_parameters_without_values_are_told_once(
    net: Net, run: Path, train: Any, written: Read, caplog: Any
) -> None:
    net.ghost = nn.Linear(2, 2, device="meta")
    with TorchHook.attach(net, run, **EVERY) as hook:
        train(net, 2, torch.optim.SGD([*net.fc1.parameters(), *net.fc2.parameters()], 0.1))
    assert hook.stats.errors == 1
    assert "Net.ghost" not in caplog.text
    assert "ghost.weight" in caplog.text
    assert "Net_fc1.weight" in written(run)[FIRST]


def test_a_tensor_that_rules_do_not_want_costs_nothing(
    net: Net, run: Path, train: Any, written: Read
) -> None:
    from tocsin.watch import RuleConfig, Watch

    watch = Watch(rules=(RuleConfig(rule="VanishingGradient"),))
    with TorchHook.attach(net, run, watch=watch, **EVERY):
        train(net)
    roles = {each.role for each in written(run)[FIRST].values()}
    assert roles == {Role.GRADIENT, Role.LOSS}


def test_a_recurrent_loop_that_updates_by_itself(run: Path, written: Read) -> None:
    """A word is a step: its letters are given with the state after the letters before."""
    cell = nn.RNNCell(3, 4)
    with TorchHook.attach(cell, run, **EVERY):
        for _ in range(6):
            state = torch.zeros(1, 4)
            cell.zero_grad()
            for _ in range(5):
                state = cell(torch.randn(1, 3), state)
            nn.MSELoss()(state, torch.ones(1, 4)).backward()
            for each in cell.parameters():
                each.data.add_(each.grad, alpha=-0.1)
    assert len(written(run)) == 6


def updates(model: nn.Module, count: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(count):
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("trained", [True, False])
def test_the_next_model_of_a_notebook(
    trained: bool, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its optimizer has taken the place of the one of the model before."""
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    with TorchHook.attach(first, run, **EVERY):
        if trained:
            updates(first, 5)
        else:
            first(torch.ones(4, 3)).sum().backward()
        updates(second, 40)
    assert ("holds other parameters" in caplog.text) is not trained
