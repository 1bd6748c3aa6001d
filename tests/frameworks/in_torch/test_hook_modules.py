"""Activations, inputs, outputs and losses of all kinds of modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tocsin import create_trial
from tocsin.model import Mode, Role
from tocsin_hooks.torch import TorchHook
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.frameworks.in_torch.runs import update

from .conftest import Written, hooks_of

Read = Callable[[Path], Written]
EVERY = {"save_interval": 1, "max_overhead": 1.0}
FIRST = Mode.TRAIN, 0


class QuickGELUActivation(nn.Module):
    """As other libraries have them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.702 * x)


class Forward(nn.Module):
    """A model that does with its modules what it is told."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self._own = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._own(self, *args, **kwargs)


def through(
    model: nn.Module, run: Path, written: Read, *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """The tensors of one forward pass."""
    with TorchHook.attach(model, run, **EVERY) as hook:
        model(*args, **kwargs)
    assert hook.stats.errors == 0
    return written(run)[FIRST]


@pytest.mark.parametrize(
    ("module", "kind", "collection"),
    [
        (nn.ReLU(), "relu", "relu_output"),
        (nn.ReLU(inplace=True), "relu", "relu_output"),
        (nn.ReLU6(), "relu", "relu_output"),
        (nn.LeakyReLU(), "leakyrelu", None),
        (nn.PReLU(), "prelu", None),
        (nn.ELU(), "elu", None),
        (nn.GELU(), "gelu", "gelu_output"),
        (nn.SiLU(), "silu", None),
        (nn.Tanh(), "tanh", "tanh_output"),
        (nn.Hardtanh(), "hardtanh", None),
        (nn.Sigmoid(), "sigmoid", "sigmoid_output"),
        (nn.Softmax(-1), "softmax", "softmax_output"),
        (nn.LogSoftmax(-1), "logsoftmax", None),
        (QuickGELUActivation(), "gelu", "gelu_output"),
        (type("Mine", (nn.Tanh,), {})(), "tanh", "tanh_output"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(value),
)
def test_kinds_of_activations(
    module: nn.Module, kind: str, collection: str | None, run: Path, written: Read
) -> None:
    found = through(nn.Sequential(nn.Linear(4, 4), module), run, written, torch.randn(2, 4))
    assert (found["1_input_0"].role, found["1_input_0"].kind) == (Role.ACTIVATION_INPUT, kind)
    assert (found["1_output_0"].role, found["1_output_0"].kind) == (Role.ACTIVATION_OUTPUT, kind)
    trial = create_trial(str(run))
    assert "1_output_0" in trial.tensor_names(collection="activation_outputs")
    if collection:
        assert trial.tensor_names(collection=collection) == ["1_output_0"]


def test_a_part_is_not_taken_for_the_model(run: Path, written: Read) -> None:
    parts = {"W": nn.Linear(3, 3), "Head": nn.Linear(3, 2), "Gate": nn.ReLU()}
    model = Forward(lambda own, x: own.Head(own.Gate(own.W(x))), **parts)
    tensors = through(model, run, written, torch.ones(4, 3))
    roles = (Role.INPUT, Role.PREDICTION)
    named = {name for name, each in tensors.items() if each.role in roles}
    assert named == {"Forward_input_0", "Forward_output_0"}
    assert "Gate_output_0" in tensors


def test_what_goes_into_a_module_that_overwrites_it(run: Path, written: Read) -> None:
    model = nn.Sequential(nn.Identity(), nn.ReLU(inplace=True))
    found = through(model, run, written, torch.tensor([[-1.0, 2.0]]))
    assert found["1_input_0"].summary.min == -1
    assert found["1_output_0"].summary.min == 0
    assert found["Sequential_input_0"].summary.min == -1


def test_a_module_that_is_called_again(run: Path, written: Read) -> None:
    model = Forward(lambda self, x: self.act(self.act(x) - 1), act=nn.ReLU())
    found = through(model, run, written, torch.ones(2, 3))
    assert found["act_output_0"].summary.max == 1
    assert found["act_output_0_1"].summary.max == 0
    assert (found["act_output_0_1"].role, found["act_output_0_1"].kind) == (
        Role.ACTIVATION_OUTPUT,
        "relu",
    )
    names = create_trial(str(run)).tensor_names(regex="act.*_output")
    assert names == ["act_output_0", "act_output_0_1"]


def test_a_module_that_is_called_in_a_loop_counts_eight_times(run: Path, written: Read) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = self.act(x)
        return x

    found = through(Forward(forward, act=nn.Tanh()), run, written, torch.ones(2, 3))
    assert len([name for name in found if name.startswith("act_output")]) == 8


def test_nested_and_shared_modules(run: Path, written: Read) -> None:
    act = nn.ReLU()
    block = nn.Sequential(nn.Linear(3, 3), act)
    model = Forward(
        lambda self, x: self.b(self.a(x)), a=block, b=nn.Sequential(nn.Linear(3, 3), act)
    )
    found = through(model, run, written, torch.ones(2, 3))
    outputs = {name for name in found if "_output" in name and not name.startswith("spread/")}
    assert outputs == {"a.1_output_0", "a.1_output_0_1", "Forward_output_0"}
    assert found.keys() >= {"Forward_a.0.weight", "Forward_b.0.weight"}  # the initial ones


def test_models_with_the_same_names_inside(run: Path, tmp_path: Path, written: Read) -> None:
    """Two models of one class, each with its own run."""
    first, second = (nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(2))
    with TorchHook.attach(first, run, **EVERY), TorchHook.attach(second, tmp_path / "b", **EVERY):
        first(torch.full((1, 2), 1.0))
        second(torch.full((1, 2), 2.0))
    assert written(run)[FIRST]["Sequential_input_0"].summary.max == 1
    assert written(tmp_path / "b")[FIRST]["Sequential_input_0"].summary.max == 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_activations_count_once(run: Path, written: Read, reentrant: bool) -> None:
    calls = []

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        def block(y: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            return self.act(self.fc(y))

        return checkpoint(block, x, use_reentrant=reentrant)

    model = Forward(forward, fc=nn.Linear(3, 3), act=nn.ReLU())
    with TorchHook.attach(model, run, **EVERY):
        model(torch.ones(2, 3, requires_grad=True)).sum().backward()
    assert len(calls) == 2
    assert {name for name in written(run)[FIRST] if name.startswith("act")} == {
        "act_input_0",
        "act_output_0",
    }


def test_of_replicas_one_counts(run: Path, written: Read) -> None:
    """As DataParallel makes them for several devices."""
    inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    class Parallel(nn.DataParallel):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            replicas = []
            for _ in range(2):
                replica = self.module._replicate_for_data_parallel()
                for name, child in self.module._modules.items():
                    copied = child._replicate_for_data_parallel()
                    copied._parameters.update(child._parameters)
                    replica._modules[name] = copied
                replicas.append(replica)
            return torch.cat([each(part) for each, part in zip(replicas, x.chunk(2), strict=True)])

    model = Parallel(inner)
    found = through(model, run, written, torch.ones(4, 2))
    assert found["1_output_0"].shape == (2, 2)
    assert "1_output_0_1" not in found
    assert found["Sequential_input_0"].shape == (4, 2)


@pytest.mark.parametrize("wrapped_later", [False, True])
def test_names_are_without_the_wrapper(run: Path, written: Read, wrapped_later: bool) -> None:
    inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    before = hooks_of(inner)
    first = inner if wrapped_later else nn.DataParallel(inner)
    hook = TorchHook.attach(first, run, **EVERY)
    model = nn.DataParallel(inner) if wrapped_later else first
    model(torch.ones(4, 2)).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    hook.close()
    assert set(written(run)) == {FIRST}
    assert {"Sequential_0.weight", "1_output_0"} <= set(written(run)[FIRST])
    assert hooks_of(inner) == before
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((torch.ones(2),), {}, {"Forward_input_0": Role.INPUT}),
        (
            ([torch.ones(2), (torch.ones(2),)],),
            {},
            {f"Forward_input_{i}": Role.INPUT for i in (0, 1)},
        ),
        (
            (),
            {"input_ids": torch.ones(2, dtype=torch.int64), "labels": torch.ones(2)},
            {"Forward_input_input_ids": Role.INPUT, "Forward_input_labels": Role.LABEL},
        ),
        (({"x": torch.ones(2), "n": 3},), {"flag": True}, {"Forward_input_x": Role.INPUT}),
        (("text", None, 3), {}, {}),
        (
            tuple(torch.ones(1) for _ in range(20)),
            {},
            {f"Forward_input_{i}": Role.INPUT for i in range(8)},
        ),
    ],
    ids=["one", "nested", "keywords", "mapping", "none", "many"],
)
def test_inputs(args: Any, kwargs: Any, expected: Any, run: Path, written: Read) -> None:
    model = Forward(lambda self, *_, **__: torch.ones(1))
    found = through(model, run, written, *args, **kwargs)
    assert {name: each.role for name, each in found.items() if "_input_" in name} == expected


def test_a_batch_with_its_labels(run: Path, written: Read) -> None:
    """The model is given the batch as it is, and the loss is computed outside."""
    model = Forward(lambda self, batch: self.fc(batch["x"]), fc=nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with TorchHook.attach(model, run, **EVERY):
        for _ in range(2):
            batch = {"x": torch.randn(8, 2), "wanted": torch.randn(8, 1)}
            nn.MSELoss()(model(batch), batch["wanted"]).backward()
            optimizer.step()
    first, second = written(run)[FIRST], written(run)[Mode.TRAIN, 1]
    assert {"Forward_input_x", "Forward_input_wanted"} <= {*first}  # not known before its loss
    assert "Forward_input_x" in second
    assert "Forward_input_wanted" not in second


@pytest.mark.parametrize("style", [dict, lambda **each: SimpleNamespace(**each)])
def test_a_loss_in_the_output(style: Any, run: Path, written: Read) -> None:
    """As models of Hugging Face give it."""
    model = Forward(
        lambda self, x: style(loss=self.fc(x).mean(), logits=self.fc(x)), fc=nn.Linear(2, 3)
    )
    found = through(model, run, written, torch.ones(4, 2))
    assert found["loss"].role == Role.LOSS
    assert "Forward_output_loss" not in found


class Focal(nn.Module):
    """A loss that uses another."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.CrossEntropyLoss()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.inner(x, y) * 2


class FocalLoss(Focal):
    """A loss by its name."""


X, Y = torch.randn(6, 3, requires_grad=True), torch.randint(0, 3, (6,))
_FOCAL = Focal()
ENTROPY = "CrossEntropyLoss_output_0"


@pytest.mark.parametrize(
    ("compute", "named", "expected"),
    [
        (lambda: nn.CrossEntropyLoss()(X, Y), None, {ENTROPY}),
        (lambda: nn.CrossEntropyLoss()(input=X, target=Y), None, {ENTROPY}),
        (lambda: nn.MSELoss()(X, X.detach() + 1), None, {"MSELoss_output_0"}),
        (lambda: FocalLoss()(X, Y), None, {"FocalLoss_output_0"}),
        (lambda: Focal()(X, Y), None, {ENTROPY}),
        (lambda: _FOCAL(X, Y), _FOCAL, {"Focal_output_0"}),
        (
            lambda: [nn.BCEWithLogitsLoss()(X, torch.ones_like(X)) for _ in range(2)],
            None,
            {"BCEWithLogitsLoss_output_0", "BCEWithLogitsLoss_output_0_1"},
        ),
        (lambda: functional.cross_entropy(X, Y), None, set()),
        (lambda: nn.CrossEntropyLoss()(X.detach(), Y), None, set()),  # for information only
        (lambda: nn.CrossEntropyLoss(reduction="none")(X, Y), None, {ENTROPY}),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(3, 4, [2])(X, Y),
            None,
            {"AdaptiveLogSoftmaxWithLoss_output_1"},
        ),
    ],
    ids=[
        "module",
        "keywords",
        "mse",
        "own",
        "unknown",
        "named",
        "twice",
        "function",
        "detached",
        "each",
        "beside likelihoods",
    ],
)
def test_losses(compute: Any, named: Any, expected: set[str], run: Path, written: Read) -> None:
    model = nn.Identity()
    with TorchHook.attach(model, run, loss=named, **EVERY) as hook:
        model(X)
        compute()
    assert hook.stats.errors == 0
    found = written(run)[FIRST]
    assert {name for name, each in found.items() if each.role == Role.LOSS} == expected


def test_a_loss_inside_of_the_model(run: Path, written: Read) -> None:
    def forward(self: Any, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.criterion(self.fc(x), y)}

    model = Forward(forward, fc=nn.Linear(3, 3), criterion=nn.CrossEntropyLoss())
    found = through(model, run, written, X.detach(), Y)
    assert {name for name, each in found.items() if each.role == Role.LOSS} == {ENTROPY}
    assert found["CrossEntropyLoss_input_1"].role == Role.LABEL


def test_of_a_large_loss_the_mean_is_kept(run: Path, written: Read) -> None:
    model = nn.Identity()
    with TorchHook.attach(model, run, **EVERY):
        each = nn.MSELoss(reduction="none")(
            model(torch.full((50, 50), 3.0, requires_grad=True)), torch.ones(50, 50)
        )
    assert each.shape == (50, 50)
    assert create_trial(str(run)).tensor("MSELoss_output_0").value(0) == 4


@pytest.mark.parametrize(
    ("criterion", "arguments"),
    [
        (nn.CosineEmbeddingLoss(), (X, X * 2, torch.ones(6))),
        (nn.TripletMarginLoss(), (X, X + 1, X - 1)),
    ],
)
def test_losses_that_compare_something_else(
    criterion: nn.Module, arguments: Any, run: Path, written: Read
) -> None:
    model = nn.Identity()
    with TorchHook.attach(model, run, **EVERY):
        model(X)
        criterion(*arguments)
    roles = [each.role for each in written(run)[FIRST].values()]
    assert Role.LOSS in roles
    assert Role.LABEL not in roles


def test_the_output_counts_once(net: nn.Module, run: Path, batch: Any, written: Read) -> None:
    """Not as the model's output and again as what the loss was given."""
    with TorchHook.attach(net, run, **EVERY):
        nn.CrossEntropyLoss()(net(batch[0]), batch[1])
        with torch.no_grad():
            nn.CrossEntropyLoss()(net(batch[0]).log_softmax(-1), batch[1])
    steps = written(run)
    assert "Net_output_0" not in steps[FIRST]
    assert {"Net_output_0", "CrossEntropyLoss_input_0"} <= set(steps[Mode.EVAL, 0])


def test_a_function_shows_what_it_compares(
    net: nn.Module, run: Path, batch: Any, written: Read
) -> None:
    x, y = batch
    with TorchHook.attach(net, run, **EVERY):
        functional.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            functional.cross_entropy(net(x), y)
    steps = written(run)
    first, last = steps[FIRST], steps[Mode.EVAL, 0]
    assert first["cross_entropy_input_0"].role == Role.PREDICTION
    assert first["cross_entropy_input_1"].role == Role.LABEL
    assert "Net_output_0" not in first
    assert {"cross_entropy_input_0", "cross_entropy_input_1"} <= set(last)


def by_function(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels, ignore_index=0)


WEIGHTS = torch.tensor([1.0, 2.0, 1.0])


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        (by_function, "ignore_index=0"),
        (nn.CrossEntropyLoss(ignore_index=0), "ignore_index=0"),
        (nn.CrossEntropyLoss(WEIGHTS), "weighted"),
        (partial(functional.cross_entropy, weight=WEIGHTS), "weighted"),
        (nn.CrossEntropyLoss(WEIGHTS, ignore_index=0), "weighted ignore_index=0"),
    ],
)
def test_what_a_loss_does_with_its_labels(
    net: nn.Module, run: Path, batch: Any, written: Read, criterion: Any, expected: str
) -> None:
    with TorchHook.attach(net, run, **EVERY):
        criterion(net(batch[0]), batch[1]).backward()
    kinds = [each.kind for each in written(run)[FIRST].values() if each.role == Role.LABEL]
    assert kinds == [expected]


def test_a_function_that_is_called_twice(
    net: nn.Module, run: Path, batch: Any, written: Read
) -> None:
    with TorchHook.attach(net, run, **EVERY):
        scores = net(batch[0])
        for column in (0, 1):
            functional.mse_loss(scores[:, column], batch[1].float())
        functional.mse_loss(torch.ones(8), batch[1].float())  # for information
    labels = [name for name, each in written(run)[FIRST].items() if each.role == Role.LABEL]
    assert sorted(labels) == ["mse_loss_input_1", "mse_loss_input_1_1"]


def test_two_outputs_and_a_recurrent_network(run: Path, written: Read) -> None:
    model = Forward(lambda self, x: self.rnn(x), rnn=nn.LSTM(3, 4))
    found = through(model, run, written, torch.ones(2, 1, 3))
    assert {"Forward_output_0", "Forward_output_1", "Forward_output_2"} <= set(found)


@pytest.mark.filterwarnings("ignore")  # what torch.jit says of itself
def test_a_model_that_was_traced(run: Path, written: Read) -> None:
    x = torch.randn(8, 3)
    model = torch.jit.trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), x)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with TorchHook.attach(model, run, **EVERY) as hook:
        for _ in range(2):
            update(optimizer, functional.mse_loss(model(x), torch.zeros(8, 4)))
        assert hook.stats.errors == 0
    roles = {each.role for each in written(run)[FIRST].values()}
    assert {Role.LOSS, Role.WEIGHT, Role.GRADIENT, Role.INPUT} <= roles
