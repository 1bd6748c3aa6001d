"""What two lines capture of a training."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin import create_trial
from tocsin.model import Mode, Role
from tocsin.tensors import LocalStorage, decode_collections
from tocsin_hooks import Hook
from tocsin_hooks.torch import TorchHook, TrainingStopped, tensor_names
from tocsin_hooks.torch.capture.activations import Activations
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.losses import Losses
from tocsin_hooks.torch.capture.parameters import Parameters
from torch import nn
from torch.nn import functional

from tests.frameworks.in_torch.runs import update
from tests.waiting import PATIENCE

from .conftest import Net, Written, hooks_of

Read = Callable[[Path], Written]
EVERY = {"save_interval": 1, "max_overhead": 1.0}
TRAIN, EVAL = Mode.TRAIN, Mode.EVAL

PARAMETERS = {"Net_fc1.weight", "Net_fc1.bias", "Net_fc2.weight", "Net_fc2.bias"}
GRADIENTS = {f"gradient/{name}" for name in PARAMETERS}
INTERVALS = {"interval/loss", "interval/gradient"}


def test_two_lines(net: nn.Module, run: Path, train: Any, written: Read) -> None:
    hook = TorchHook.attach(net, run)
    train(net, 11)
    hook.close()
    steps = written(run)
    assert set(steps) == {(TRAIN, 0), (TRAIN, 10)}
    for found in steps.values():
        assert {name: entry.role for name, entry in found.items()} == {
            **{name: Role.WEIGHT for name in PARAMETERS if name.endswith("weight")},
            **{name: Role.BIAS for name in PARAMETERS if name.endswith("bias")},
            **dict.fromkeys(GRADIENTS, Role.GRADIENT),
            "CrossEntropyLoss_output_0": Role.LOSS,
            "CrossEntropyLoss_input_0": Role.PREDICTION,
            "CrossEntropyLoss_input_1": Role.LABEL,
            "Net_input_0": Role.INPUT,
            "relu1_input_0": Role.ACTIVATION_INPUT,
            "relu1_output_0": Role.ACTIVATION_OUTPUT,
            "learning_rate": Role.LEARNING_RATE,
            "CrossEntropyLoss/skill": Role.SKILL,
            "samples": Role.SAMPLE,
            **({} if found is steps[TRAIN, 0] else dict.fromkeys(INTERVALS, Role.INTERVAL)),
        }
        assert found["relu1_output_0"].kind == found["relu1_input_0"].kind == "relu"
    assert hook.stats.saved == 2
    assert hook.stats.errors == 0


def test_values_are_those_of_the_training(
    net: Net, run: Path, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    hook = TorchHook.attach(net, run, **EVERY)
    optimizer = torch.optim.SGD(net.parameters(), 0.5)
    loss = nn.CrossEntropyLoss()(net(batch[0]), batch[1])
    loss.backward()
    before = net.fc1.weight.detach().clone()
    optimizer.step()
    hook.close()
    trial = create_trial(str(run))
    assert trial.tensor("CrossEntropyLoss_output_0").value(0) == pytest.approx(loss.item())
    assert trial.tensor("learning_rate").value(0) == pytest.approx(0.5)
    assert (trial.tensor("CrossEntropyLoss_input_1").value(0) == batch[1].numpy()).all()
    for name, expected in (
        ("Net_fc1.weight", before),
        ("gradient/Net_fc1.weight", net.fc1.weight.grad),
    ):
        summary = trial.tensor(name).summary(0)
        assert summary.l2 == pytest.approx(expected.norm().item(), rel=1e-5)
        assert summary.mean == pytest.approx(expected.mean().item(), rel=1e-4, abs=1e-7)


def test_names_and_collections_are_those_of_smdebug(run: Path, train: Any) -> None:
    """The model of a run that smdebug itself wrote, with what was configured there."""

    class MLP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.relu1 = nn.Linear(4, 8), nn.ReLU()
            self.fc2, self.relu2 = nn.Linear(8, 8), nn.ReLU()
            self.fc3 = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc3(self.relu2(self.fc2(self.relu1(self.fc1(x)))))

    model = MLP()
    hook = TorchHook.attach(model, run)
    train(model)
    hook.close()
    fixture = Path(__file__).parents[2] / "fixtures/smdebug/torch_mlp/run"
    theirs, ours = (
        decode_collections((each / COLLECTIONS).read_bytes(), "worker_0").collections
        for each in (fixture, run)
    )
    for name in ("weights", "biases", "gradients", "losses", "relu_output"):
        assert set(ours[name].tensor_names) == set(theirs[name].tensor_names)


def test_modes(net: nn.Module, run: Path, train: Any, batch: Any, written: Read) -> None:
    hook = TorchHook.attach(net, run, **EVERY)
    optimizer = train(net, 2)
    net.eval()
    for _ in range(2):
        with torch.no_grad():
            nn.CrossEntropyLoss()(net(batch[0]), batch[1])
    net.train()
    with torch.no_grad():
        net(batch[0])  # of the same evaluation
    train(net, 1, optimizer)
    hook.close()
    steps = written(run)
    assert list(steps) == [(TRAIN, 0), (TRAIN, 1), (EVAL, 0), (TRAIN, 2)]
    assert "CrossEntropyLoss_output_0" in steps[EVAL, 0]
    assert "relu1_output_0" in steps[EVAL, 0]
    assert not {*PARAMETERS, *GRADIENTS, "learning_rate"} & set(steps[EVAL, 0])
    assert {*PARAMETERS, *GRADIENTS} <= set(steps[TRAIN, 2])
    assert hook.position == {"TRAIN": 3, "EVAL": 1, "PREDICT": 0, "GLOBAL": 4}


def test_detaching_leaves_no_trace(net: nn.Module, run: Path, train: Any, batch: Any) -> None:
    before = hooks_of(net)
    hook = TorchHook.attach(net, run, **EVERY)
    assert hooks_of(net) != before
    train(net, 2)
    hook.detach()
    assert hooks_of(net) == before
    net(batch[0])  # in the midst of a step
    with TorchHook.attach(net, run, **EVERY) as again:
        net(batch[0])
        assert again.hook.saving
    assert hooks_of(net) == before
    again.close()


def test_between_saves_modules_have_no_hooks(net: Net, run: Path, train: Any, batch: Any) -> None:
    hook = TorchHook.attach(net, run, save_interval=100, max_overhead=1.0)
    train(net, 1)
    outside = hooks_of(net)
    inside: list[Any] = []
    net.fc2.register_forward_hook(lambda *_: inside.append(hooks_of(net)))
    expected = hooks_of(net)
    net(batch[0])
    assert inside == [expected]
    assert len(outside) == len(expected)
    hook.close()


def test_a_hook_that_is_given_is_not_closed(net: nn.Module, run: Path, train: Any) -> None:
    own = Hook(run, **EVERY)
    hook = TorchHook.attach(net, own)
    assert hook.hook is own
    train(net)
    hook.close()
    with own.step():
        own.save("more", 1.0)
    own.close()
    assert own.stats.saved == 2


def test_what_a_script_saves_itself(net: nn.Module, run: Path, batch: Any, written: Read) -> None:
    hook = TorchHook.attach(net, run, **EVERY)
    net(batch[0])
    hook.save("mine/tensor", batch[0].requires_grad_(), raw=True)
    hook.save("mine/number", 0.5, "metrics")
    hook.close()
    found = written(run)[TRAIN, 0]
    assert found["mine/number"].role == Role.METRIC
    assert found["mine/tensor"].shape == (8, 4)
    assert (
        create_trial(str(run)).tensor("mine/tensor").value(0) == batch[0].detach().numpy()
    ).all()


def test_what_a_configuration_asks_for(net: nn.Module, run: Path, train: Any) -> None:
    from tocsin.watch import Capture, CollectionConfig

    capture = Capture(
        collections={
            "heads": CollectionConfig(include_regex="fc2_output", save_raw_tensor=True),
            "out": CollectionConfig(include_regex="Net_output_0"),
        }
    )
    hook = TorchHook.attach(net, run, capture=capture, **EVERY)
    train(net)
    hook.close()
    trial = create_trial(str(run))
    assert trial.tensor_names(collection="heads") == ["fc2_output_0"]
    assert trial.tensor("fc2_output_0").value(0).shape == (8, 3)
    assert trial.tensor_names(collection="out") == ["Net_output_0"]


def test_save_all(net: nn.Module, run: Path, train: Any, written: Read) -> None:
    from tocsin.watch import Capture

    hook = TorchHook.attach(net, run, capture=Capture(save_all=True), **EVERY)
    train(net)
    hook.close()
    ends = ("input_0", "output_0")
    names = {f"{module}_{end}" for module in ("fc1", "relu1", "fc2") for end in ends}
    assert {*names, "Net_input_0"} <= set(written(run)[TRAIN, 0])


def test_by_default_nobody_asks_for_outputs_of_layers(
    net: nn.Module, run: Path, train: Any, written: Read
) -> None:
    hook = TorchHook.attach(net, run, **EVERY)
    train(net)
    hook.close()
    assert not [name for name in written(run)[TRAIN, 0] if name.startswith("fc")]


@pytest.mark.parametrize("raises", [False, True])
def test_stop(net: nn.Module, run: Path, train: Any, raises: bool) -> None:
    hook = TorchHook.attach(net, run, raise_on_stop=raises, poll_interval=0.01, **EVERY)
    train(net, 1)
    assert not hook.should_stop
    LocalStorage(run).write("STOP.json", b'{"requested_at": "2999-01-01T00:00:00Z"}')
    hook.hook._session.stop_file.look()  # type: ignore[union-attr] # not to wait for it
    assert hook.should_stop
    if raises:
        with pytest.raises(TrainingStopped):
            train(net, 1)
        assert hook.position["TRAIN"] == 1
    else:
        train(net, 1)
        assert hook.position["TRAIN"] == 2
    hook.close()


@pytest.mark.parametrize("model", [None, "net", 3])
def test_what_is_no_model_is_told_and_harmless(model: Any, run: Path, caplog: Any) -> None:
    hook = TorchHook.attach(model, run)
    assert hook.stats.errors == 1
    assert "it is not a torch.nn.Module" in caplog.text
    hook.close()


@pytest.mark.parametrize(
    "environment", [{"TOCSIN": "0"}, {"USE_SMDEBUG": "0"}], ids=["tocsin", "smdebug"]
)
def test_switched_off(
    net: nn.Module, run: Path, train: Any, environment: dict[str, str], monkeypatch: Any
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    hook = TorchHook.attach(net, run)
    train(net, 2)
    assert hook.record_loss(torch.ones(())) == 1
    hook.close()
    assert not run.exists()


def test_nothing_of_a_failing_capture_reaches_the_training(
    net: nn.Module, run: Path, train: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    plain = copy.deepcopy(net)
    train(plain, 3)
    hook = TorchHook.attach(net, run, **EVERY)
    for part, name in (
        (CurrentStep, "add"),
        (Losses, "begin_pass"),
        (Activations, "open"),
        (Parameters, "capture"),
    ):
        monkeypatch.setattr(part, name, _broken)
    train(net, 3)
    hook.close()
    assert hook.stats.errors >= 3
    assert len([each for each in caplog.records if "out of order" in each.message]) == 1
    for ours, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_training_is_the_same_with_a_hook(net: nn.Module, run: Path, train: Any) -> None:
    plain = copy.deepcopy(net)
    train(plain, 3)
    hook = TorchHook.attach(net, run, **EVERY)
    train(net, 3)
    hook.close()
    for ours, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_tensor_names(net: nn.Module, run: Path, train: Any, written: Read) -> None:
    """They are what a run has, but for what only the loop knows."""
    listed = {each.name: each for each in tensor_names(nn.DataParallel(net))}
    hook = TorchHook.attach(net, run, **EVERY)
    train(net)
    hook.close()
    found = written(run)[TRAIN, 0]
    unknown = {name for name in found if name not in listed}
    assert unknown == {
        "learning_rate",
        "CrossEntropyLoss/skill",
        *(f"CrossEntropyLoss_{end}" for end in ENDS),
    }
    assert all(
        (found[name].role, found[name].kind) == (listed[name].role, listed[name].kind)
        for name in set(found) & set(listed)
    )


COLLECTIONS = "collections/000000000/worker_0_collections.json"
ENDS = ("output_0", "input_0", "input_1")


def _broken(*_: object, **__: object) -> None:
    raise RuntimeError("out of order")


def test_functional_loss(net: nn.Module, run: Path, batch: Any, written: Read) -> None:
    hook = TorchHook.attach(net, run, **EVERY)
    loss = hook.record_loss(functional.cross_entropy(net(batch[0]), batch[1]))
    hook.record_loss(0.25, name="penalty")
    loss.backward()
    hook.close()
    found = written(run)[TRAIN, 0]
    assert found["loss"].role == found["penalty"].role == Role.LOSS
    trial = create_trial(str(run))
    assert trial.tensor("loss").value(0) == pytest.approx(loss.item())
    assert trial.tensor("penalty").value(0) == pytest.approx(0.25)


@pytest.mark.parametrize("in_place", [False, True])
def test_steps_of_as_many_passes_as_the_loop_likes(
    in_place: bool, net: nn.Module, run: Path, batch: Any, written: Read
) -> None:
    """Gradients are taken away when all passes are through: until then they say what is new."""
    optimizer = torch.optim.Adam(net.parameters())
    with TorchHook.attach(net, run, **EVERY) as hook:
        for passes in (1, 2, 5, 1, 3, 7, 1, 1, 1, 1, 4):
            loss = sum(functional.cross_entropy(net(batch[0]), batch[1]) for _ in range(passes))
            optimizer.zero_grad(set_to_none=not in_place)
            loss.backward()
            optimizer.step()
    assert hook.stats.errors == 0
    assert len(written(run)) == 11


def test_a_rule_of_its_judge_stops_the_training(tmp_path: Path) -> None:
    watch = tmp_path / "watch.json"
    watch.write_text('{"rules": [{"rule": "ExplodingTensor", "actions": ["stop"]}]}')
    model = nn.Linear(4, 1)
    hook = TorchHook.attach(model, tmp_path / "run", watch=watch, save_interval=5, judge="stop")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e9)

    def train_for(seconds: float) -> None:
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            update(optimizer, functional.mse_loss(model(torch.ones(2, 4)), torch.ones(2, 1)))
            time.sleep(0.01)

    with pytest.raises(TrainingStopped, match="ExplodingTensor stops the training"):
        train_for(PATIENCE)
    hook.close(finished=False)
