"""The hook on Gluon networks of all kinds."""

from __future__ import annotations

import copy
import json
import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn
from tocsin import create_trial, modes
from tocsin.tensors import END_MARKER, STOP, LocalStorage, read_index
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks import Hook
from tocsin_hooks.mxnet import GluonHook


def everything(interval: int = 1) -> dict[str, Any]:
    """The values of all tensors that there are."""
    found = Capture(save_interval=interval, save_all=True, save_raw_tensor=True)
    return {"capture": found, "save_interval": None}


def roles(run: Path, step: int = 0) -> dict[str, tuple[str | None, str | None]]:
    """Role and kind of every tensor of a step."""
    storage = LocalStorage(run)
    found = (read_index(storage, item) for item in storage.list("index/"))
    index = next(index for index in found if index.step == step)
    return {entry.name: (entry.role, entry.kind) for entry in index.entries}


def value(run: Path, name: str, step: int = 0) -> Any:
    return create_trial(run).tensor(name).value(step)


# Names, roles, values.


def test_names_and_roles(train: Any, network: Any, tmp_path: Path) -> None:
    train(network(), 1)
    found = roles(tmp_path / "run")
    loss = "softmaxcrossentropyloss0"
    assert {name: told for name, told in found.items() if told[0]} == {
        "net_dense0_weight": ("weight", None),
        "net_dense0_bias": ("bias", None),
        "net_dense1_weight": ("weight", None),
        "net_dense1_bias": ("bias", None),
        "gradient/net_dense0_weight": ("gradient", None),
        "gradient/net_dense0_bias": ("gradient", None),
        "gradient/net_dense1_weight": ("gradient", None),
        "gradient/net_dense1_bias": ("gradient", None),
        "net_dense0_relu_input_0": ("activation_input", "relu"),
        "net_dense0_relu_output_0": ("activation_output", "relu"),
        "net_input_0": ("input", None),
        "net_output_0": ("prediction", None),
        f"{loss}_input_0": ("prediction", None),
        f"{loss}_input_1": ("label", None),
        f"{loss}_output_0": ("loss", None),
        "learning_rate": ("learning_rate", None),
    }


def test_collections_are_those_of_smdebug(train: Any, network: Any, tmp_path: Path) -> None:
    train(network(), 1)
    trial = create_trial(tmp_path / "run")
    patterns = {
        "weights": "^(?!gradient).*weight",
        "biases": "^(?!gradient).*bias",
        "gradients": "^gradient",
        "losses": ".*loss._(?!input).*output",
    }
    for collection, pattern in patterns.items():
        found = trial.tensor_names(collection=collection)
        assert found
        assert found == trial.tensor_names(regex=pattern)


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (lambda: nn.Activation("relu"), "relu"),
        (lambda: nn.Activation("sigmoid"), "sigmoid"),
        (lambda: nn.Activation("tanh"), "tanh"),
        (lambda: nn.Activation("softsign"), "softsign"),
        (lambda: nn.LeakyReLU(0.1), "leakyrelu"),
        (nn.PReLU, "prelu"),
        (nn.ELU, "elu"),
        (nn.SELU, "selu"),
        (nn.GELU, "gelu"),
        (nn.Swish, "swish"),
    ],
)
def test_kinds(train: Any, network: Any, tmp_path: Path, block: Any, kind: str) -> None:
    train(network(lambda: nn.Dense(4), block, lambda: nn.Dense(2)), 1)
    found = {told for told in roles(tmp_path / "run").values() if told[1]}
    assert found == {("activation_input", kind), ("activation_output", kind)}


def test_values_are_those_of_the_step(train: Any, network: Any, data: Any, tmp_path: Path) -> None:
    net = network()
    seen: list[dict[str, Any]] = []

    def remember(hook: Any) -> None:
        of_net = net.collect_params().items()
        seen.append(
            {name: parameter.data().asnumpy() for name, parameter in of_net}
            | {f"gradient/{name}": parameter.grad().asnumpy() for name, parameter in of_net}
        )

    train(net, 3, after=remember, **everything())
    for step, wanted in enumerate(seen):
        for name, array in wanted.items():
            np.testing.assert_array_equal(value(tmp_path / "run", name, step), array)
    run = tmp_path / "run"
    assert value(run, "learning_rate", 2).tolist() == [0.1]
    np.testing.assert_array_equal(value(run, "net_input_0", 1), data[0].asnumpy())
    np.testing.assert_array_equal(
        value(run, "softmaxcrossentropyloss0_input_0", 1), value(run, "net_output_0", 1)
    )
    assert value(run, "softmaxcrossentropyloss0_output_0", 1).shape == (64,)


def test_a_training_is_the_same_with_it(train: Any, network: Any, tmp_path: Path) -> None:
    weights = []
    for run in (
        lambda net: plain(net, 5),
        lambda net: train(net, 5, **everything()),
        lambda net: train(net, 5, out=tmp_path / "next", save_interval=1000),
    ):
        net = network()  # draws the same weights each time, in its first forward pass
        run(net)
        weights.append([p.data().asnumpy() for p in net.collect_params().values()])
    for each in zip(*weights, strict=True):
        np.testing.assert_array_equal(each[1], each[0])
        np.testing.assert_array_equal(each[2], each[0])


def plain(net: Any, steps: int) -> None:
    inputs = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    labels = mx.nd.array(inputs[:, 0] + inputs[:, 1] > 0)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(steps):
        with autograd.record():
            found = loss(net(mx.nd.array(inputs)), labels)
        found.backward()
        trainer.step(64)


def test_a_block_that_is_called_twice(train: Any, tmp_path: Path) -> None:
    class Twice(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__(prefix="twice_")
            with self.name_scope():
                self.dense = nn.Dense(8, in_units=8)
                self.relu = nn.Activation("relu")
                self.last = nn.Dense(2)

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - Gluon's name
            return self.last(self.relu(self.dense(self.relu(self.dense(x)))))

    net = Twice()
    net.initialize()
    train(net, 2)
    for step in (0, 1):
        found = roles(tmp_path / "run", step)
        assert found["twice_relu0_output_0_1"] == found["twice_relu0_output_0"]
        outputs = [name for name in found if "relu0_" in name]
        assert sorted(outputs) == [
            "twice_relu0_input_0",
            "twice_relu0_input_0_1",
            "twice_relu0_output_0",
            "twice_relu0_output_0_1",
        ]


def test_frozen_parameters_have_no_gradient(train: Any, network: Any, tmp_path: Path) -> None:
    net = network()
    net[0].collect_params().setattr("grad_req", "null")
    train(net, 1)
    assert [name for name in roles(tmp_path / "run") if name.startswith("gradient")] == [
        "gradient/net_dense1_weight",
        "gradient/net_dense1_bias",
    ]


def test_running_means_are_neither_weights_nor_biases(
    train: Any, network: Any, tmp_path: Path
) -> None:
    train(network(lambda: nn.Dense(4), nn.BatchNorm, lambda: nn.Dense(2)), 1)
    found = roles(tmp_path / "run")
    of_norm = {name: told[0] for name, told in found.items() if "batchnorm" in name}
    assert of_norm["net_batchnorm0_gamma"] == "weight"
    assert of_norm["net_batchnorm0_beta"] == "bias"
    assert of_norm.get("net_batchnorm0_running_mean") is None


@pytest.mark.parametrize("sparse", [False, True])
def test_embeddings(train: Any, network: Any, tmp_path: Path, sparse: bool) -> None:
    net = network(lambda: nn.Embedding(10, 4, sparse_grad=sparse), lambda: nn.Dense(2))
    tokens = mx.nd.array(np.arange(12).reshape(4, 3) % 5), mx.nd.array([0, 1, 0, 1])
    train(net, 1, batches=tokens, **everything())
    gradient = value(tmp_path / "run", "gradient/net_embedding0_weight")
    assert gradient.shape == (10, 4)
    assert gradient[:5].any(axis=1).all()
    assert not gradient[5:].any()


def test_half_precision(tmp_path: Path) -> None:
    class Scale(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__(prefix="scale_")
            self.weight = self.params.get("weight", shape=(3,), dtype="float16", init="ones")

        def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:  # noqa: N803 - Gluon's name
            return x * weight

    net = Scale()
    net.initialize()
    hook = GluonHook.attach(net, tmp_path, **everything())
    with autograd.record():
        net(mx.nd.array([1, 2, 3], dtype="float16")).sum().backward()
    hook.close()
    gradient = value(tmp_path, "gradient/scale_weight")
    assert (gradient.dtype, gradient.tolist()) == (np.float16, [1, 2, 3])


# Losses.


def test_losses_that_no_block_computes(train: Any, network: Any, tmp_path: Path) -> None:
    def record(hook: Any) -> None:
        hook.record_loss(mx.nd.array([0.5, 1.5]), "mine")
        hook.record_loss(0.25)

    train(network(), 1, after=record)
    trial = create_trial(tmp_path / "run")
    assert {"mine", "loss"} < set(trial.tensor_names(collection="losses"))
    assert value(tmp_path / "run", "mine").tolist() == [0.5, 1.5]
    assert value(tmp_path / "run", "loss").tolist() == [0.25]


def test_several_losses(network: Any, data: Any, tmp_path: Path) -> None:
    net = network()
    losses = [gluon.loss.SoftmaxCrossEntropyLoss(prefix="a_"), gluon.loss.L2Loss(prefix="b_")]
    hook = GluonHook.attach(net, tmp_path, loss=losses, save_interval=1)
    with autograd.record():
        outputs = net(data[0])
        total = losses[0](outputs, data[1]) + losses[1](outputs, outputs)
    total.backward()
    hook.close()
    found = create_trial(tmp_path).tensor_names(collection="losses")
    assert found == ["a_output_0", "b_output_0"]


def test_a_loss_inside_the_network(tmp_path: Path, data: Any) -> None:
    class WithLoss(gluon.Block):
        def __init__(self) -> None:
            super().__init__(prefix="whole_")
            with self.name_scope():
                self.dense = nn.Dense(2)
                self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

        def forward(self, x: Any, y: Any) -> Any:
            return self.loss(self.dense(x), y)

    net = WithLoss()
    net.initialize()
    hook = GluonHook.attach(net, tmp_path, save_interval=1)
    with autograd.record():
        net(*data).backward()
    hook.close()
    found = roles(tmp_path)
    assert found["whole_softmaxcrossentropyloss0_output_0"] == ("loss", None)
    assert found["whole_softmaxcrossentropyloss0_input_1"] == ("label", None)


def test_a_loss_that_is_called_twice(network: Any, data: Any, tmp_path: Path) -> None:
    net, loss = network(), gluon.loss.SoftmaxCrossEntropyLoss(prefix="loss0_")
    hook = GluonHook.attach(net, tmp_path, loss=loss, save_interval=1)
    with autograd.record():
        outputs = net(data[0])
        total = loss(outputs, data[1]) + loss(outputs, 1 - data[1])
    total.backward()
    hook.close()
    found = roles(tmp_path)
    for name, role in (("output_0", "loss"), ("input_0", "prediction"), ("input_1", "label")):
        assert found[f"loss0_{name}"] == found[f"loss0_{name}_1"] == (role, None)


# Steps.


def test_a_step_is_a_forward_pass(train: Any, network: Any, data: Any, tmp_path: Path) -> None:
    net = network()
    train(net, 3, after=lambda hook: net(data[0]))
    trial = create_trial(tmp_path / "run")
    assert trial.steps() == [0, 1, 2, 3, 4, 5]
    assert trial.steps(mode=modes.TRAIN) == [0, 1, 2]
    assert trial.steps(mode=modes.EVAL) == [0, 1, 2]
    evaluated = roles(tmp_path / "run", 1)
    assert "net_output_0" in evaluated
    assert not [name for name in evaluated if name.startswith("gradient")]


def test_devices_share_a_step(network: Any, data: Any, tmp_path: Path) -> None:
    devices = [mx.cpu(0), mx.cpu(1)]
    net = network()
    net.collect_params().reset_ctx(devices)
    loss = gluon.loss.SoftmaxCrossEntropyLoss(prefix="loss0_")
    hook = GluonHook.attach(net, tmp_path, loss=loss, **everything())
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    parts = [gluon.utils.split_and_load(each, devices) for each in data]
    for _ in range(2):
        with autograd.record():
            values = [loss(net(inputs), labels) for inputs, labels in zip(*parts, strict=True)]
        autograd.backward(values)
        trainer.step(64)
    hook.close()
    trial = create_trial(tmp_path)
    assert trial.steps() == [0, 1]
    assert value(tmp_path, "net_input_0", 1).shape == (32, 8)
    assert not [name for name in trial.tensor_names() if name.endswith("_0_1")]


def test_the_end_of_a_step_can_be_said(network: Any, data: Any, tmp_path: Path) -> None:
    net = network()
    net.collect_params().setattr("grad_req", "add")
    hook = GluonHook.attach(net, tmp_path, **everything())
    for _ in range(2):
        with autograd.record():
            found = net(data[0]).sum()
        found.backward()
        hook.end_step()
        net.collect_params().zero_grad()
    hook.close()
    for step in (0, 1):
        assert value(tmp_path, "gradient/net_dense1_bias", step).tolist() == [64, 64]


def test_a_hook_that_is_there_is_used_and_left_open(
    train: Any, network: Any, tmp_path: Path
) -> None:
    hook = Hook(tmp_path / "run", save_interval=1, max_overhead=1)
    train(network(), 2, out=hook)
    assert not (tmp_path / "run" / END_MARKER).exists()
    hook.close()
    assert create_trial(tmp_path / "run").steps() == [0, 1]


# Hybridized networks.


def test_inside_a_hybridized_network_nothing_is_seen(
    train: Any, network: Any, tmp_path: Path, caplog: Any
) -> None:
    net = network()
    net.hybridize()
    train(net, 4)
    found = roles(tmp_path / "run", 3)
    assert {"net_dense0_weight", "gradient/net_dense0_weight", "net_output_0"} < set(found)
    assert not [name for name in found if "relu" in name]
    (said,) = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert said == (
        "3 of 3 blocks are not called (inside a hybridized network): their inputs and outputs are "
        "not captured (net_dense0_relu …)"
    )


def test_hybridized_after_it_was_attached(network: Any, data: Any, tmp_path: Path) -> None:
    net = network()
    hook = GluonHook.attach(net, tmp_path, save_interval=1, max_overhead=1)
    with pytest.warns(UserWarning, match="being hybridized"):  # MXNet's own
        net.hybridize()
    for _ in range(2):
        with autograd.record():
            net(data[0]).sum().backward()
    hook.close()
    assert hook.hook.stats.errors == 0
    assert create_trial(tmp_path).steps() == [0, 1]


# Ending.


def blocks(net: Any) -> list[Any]:
    found: list[Any] = []
    net.apply(found.append)
    return found


def test_detaching_leaves_no_trace(network: Any, data: Any, tmp_path: Path) -> None:
    net, loss = network(), gluon.loss.L2Loss()
    before = [set(vars(block)) for block in blocks(net)]
    hook = GluonHook.attach(net, tmp_path, loss=loss, save_interval=1)
    hook.detach()
    assert [set(vars(block)) for block in blocks(net)] == before
    for block in (*blocks(net), loss):
        assert not block._forward_hooks
        assert not block._forward_pre_hooks
    net(data[0])
    hook.close()
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("fails", [False, True])
def test_it_ends_as_a_context(network: Any, data: Any, tmp_path: Path, fails: bool) -> None:
    try:
        with GluonHook.attach(network(), tmp_path, save_interval=1):
            if fails:
                raise KeyError("mine")
    except KeyError:
        assert fails
    assert (tmp_path / END_MARKER).exists() is not fails


def test_a_stop_request_is_seen(network: Any, data: Any, tmp_path: Path) -> None:
    net = network()
    hook = GluonHook.attach(net, tmp_path, save_interval=1, poll_interval=0.01)
    net(data[0])
    assert not hook.should_stop
    request = {"requested_at": "2999-01-01T00:00:00Z", "rule": "R", "reason": "why"}
    LocalStorage(tmp_path).write(STOP, json.dumps(request).encode())
    while not hook.should_stop:
        pass
    hook.close()


def test_a_copied_network_is_not_watched(network: Any, data: Any, tmp_path: Path) -> None:
    net = network()
    net(data[0])
    hook = GluonHook.attach(net, tmp_path, save_interval=1, max_overhead=1)
    other = copy.deepcopy(net)
    other(data[0])
    with autograd.record():
        net(data[0])
        other(data[0])
    hook.close()
    assert create_trial(tmp_path).steps() == [0]
    assert hook.hook.stats.errors == 0


# Trouble.


def test_an_option_that_there_is_not_is_told_at_once(network: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="sav_interval"):
        GluonHook.attach(network(), tmp_path, sav_interval=1)
    with pytest.raises(FileNotFoundError, match=r"missing\.yaml"):
        GluonHook.attach(network(), tmp_path, watch="missing.yaml")


def test_a_parameter_that_is_never_used_costs_itself_alone(
    tmp_path: Path, data: Any, caplog: Any
) -> None:
    class Unused(gluon.Block):
        def __init__(self) -> None:
            super().__init__(prefix="net_")
            with self.name_scope():
                self.used = nn.Dense(2)
                self.unused = nn.Dense(2)

        def forward(self, x: Any) -> Any:
            return self.used(x)

    net = Unused()
    net.initialize()
    hook = GluonHook.attach(net, tmp_path, save_interval=1, max_overhead=1)
    for _ in range(2):
        with autograd.record():
            net(data[0]).sum().backward()
    hook.close()
    assert "net_dense0_weight" in roles(tmp_path, 1)
    assert len([r for r in caplog.records if "net_dense1_weight" in r.message]) == 1


def test_a_failure_of_the_training_stays_one(network: Any, data: Any, tmp_path: Path) -> None:
    """MXNet computes in the background and tells of a failure once, to whoever waits first."""
    net = network()
    net.cast("float16")  # which dense layers cannot do on a CPU
    hook = GluonHook.attach(net, tmp_path, save_interval=1)
    with pytest.raises(mx.MXNetError, match="float16"):
        net(data[0].astype("float16")).wait_to_read()
    hook.close(finished=False)


def test_a_failure_of_a_backward_pass_stays_one(network: Any, data: Any, tmp_path: Path) -> None:
    net = network()
    hook = GluonHook.attach(net, tmp_path, save_interval=1)
    with autograd.record():
        net(data[0]).sum().backward()
    half = [mx.nd.ones(shape, dtype="float16") for shape in ((2, 8), (16, 8), (16,))]
    failing = mx.nd.FullyConnected(*half, num_hidden=16)
    net[0].bias.grad()[:] = failing[0].astype("float32")
    with pytest.raises(mx.MXNetError, match="float16"):
        hook.end_step()
    hook.close(finished=False)


def test_what_is_no_network_is_told_and_left_alone(tmp_path: Path, caplog: Any) -> None:
    hook = GluonHook.attach("a network", tmp_path, loss="a loss")
    hook.close()
    assert "the network is not watched" in caplog.text


def test_a_run_that_cannot_be_written_leaves_the_training_alone(
    train: Any, network: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    train(network(), 3, out=tmp_path / "file" / "run")


@pytest.mark.parametrize("switch", ["TOCSIN", "USE_SMDEBUG"])
def test_it_is_switched_off(
    train: Any, network: Any, tmp_path: Path, monkeypatch: Any, switch: str
) -> None:
    monkeypatch.setenv(switch, "0")
    train(network(), 2)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("told", [True, False])
def test_a_rank_of_horovod_is_a_worker(
    train: Any, network: Any, tmp_path: Path, monkeypatch: Any, told: bool
) -> None:
    horovod = ModuleType("horovod.mxnet")
    if told:
        answers = {"is_initialized": True, "rank": 1, "size": 2}
        for name, answer in answers.items():
            setattr(horovod, name, lambda answer=answer: answer)
    monkeypatch.setitem(sys.modules, "horovod.mxnet", horovod)
    train(network(), 1)
    worker = "worker_1" if told else "worker_0"
    names = {path.stem.partition("_")[2] for path in (tmp_path / "run" / "index").rglob("*.json")}
    assert names == {worker}


def test_collections_of_activations_can_be_configured(
    train: Any, network: Any, tmp_path: Path
) -> None:
    from tocsin.watch import to_watch

    reduced = Capture(
        save_interval=1, collections={"relu_output": CollectionConfig(reductions=("mean",))}
    )
    watch = to_watch({"rules": ["LossNotDecreasing"]})
    train(network(), 1, watch=watch, capture=reduced, save_interval=None)
    trial = create_trial(tmp_path / "run")
    assert trial.tensor_names(collection="relu_output") == ["net_dense0_relu_output_0"]
    assert trial.tensor("net_dense0_relu_output_0").reduction_value(0, "mean") > 0


def test_only_what_is_configured(train: Any, network: Any, tmp_path: Path) -> None:
    from tocsin.watch import to_watch

    watch = to_watch({"rules": ["LossNotDecreasing"]})
    weights = Capture(save_interval=2, collections={"weights": CollectionConfig(save_interval=4)})
    train(network(), 5, watch=watch, capture=weights, save_interval=None)
    trial = create_trial(tmp_path / "run")
    assert trial.steps() == [0, 2, 4]
    assert trial.tensor_names() == [
        "net_dense0_weight",
        "net_dense1_weight",
        "softmaxcrossentropyloss0_output_0",
    ]
    assert trial.tensor("net_dense0_weight").steps() == [0, 4]


def test_only_mxnet_is_imported() -> None:
    code = (
        "import sys, mxnet; before = set(sys.modules); import tocsin_hooks.mxnet\n"
        "added = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(added & {'pandas', 'sklearn', 'torch', 'boto3', 'horovod', 'typer'}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == []


@pytest.mark.parametrize("recorded", [True, False])
def test_a_loss_that_a_function_computes(
    recorded: bool, network: Any, data: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Is saved if it is recorded, and its absence is said."""
    net, expected = network(), []
    hook = GluonHook.attach(net, tmp_path / "run", save_interval=1, max_overhead=1)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(4):
        with autograd.record():
            chosen = mx.nd.pick(mx.nd.log_softmax(net(data[0])), data[1])
            loss = -chosen.mean()
        loss.backward()
        if recorded:
            hook.record_loss(loss)
        expected.append(float(loss.asscalar()))
        trainer.step(1)
    hook.close()
    names = create_trial(tmp_path / "run").tensor_names(collection="losses")
    assert names == (["loss"] if recorded else [])
    assert ("no loss was captured in 3 saved steps" in caplog.text) is not recorded
    if recorded:
        saved = [value(tmp_path / "run", "loss", step).item() for step in range(4)]
        assert saved == pytest.approx(expected)
