"""A hook's life: copies, exceptions, the end of a model, of a script."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin.model import Mode
from tocsin.watch import RuleConfig, Watch
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import update

from .conftest import Net, Written, hooks_of

Read = Callable[[Path], Written]
EVERY = {"save_interval": 1, "max_overhead": 1.0}
TRAIN = Mode.TRAIN
ROOT = Path(__file__).parents[3]


def test_a_model_attached_again(
    net: Net, run: Path, tmp_path: Path, train: Any, written: Read
) -> None:
    """As in a notebook, where a cell is run twice."""
    before = hooks_of(net)
    first = TorchHook.attach(net, run, **EVERY)
    train(net)
    second = TorchHook.attach(net, tmp_path / "second", **EVERY)
    assert (run / "training_job_end.ts").exists()
    train(net, 2)
    second.close()
    first.close()
    assert len(written(run)) == 1
    assert len(written(tmp_path / "second")) == 2
    assert hooks_of(net) == before


@pytest.mark.parametrize("cyclic", [False, True])
def test_a_model_that_dies_ends_its_run(run: Path, train: Any, written: Read, cyclic: bool) -> None:
    gc.collect()
    nothing = hooks_of(nn.Module())
    net = Net()
    if cyclic:
        net.__dict__["me"] = net
    hook = weakref.ref(TorchHook.attach(net, run, **EVERY))  # the result is not kept
    alive = weakref.ref(net)
    train(net, 2)
    assert hook() is not None
    del net
    gc.collect()
    assert alive() is None
    gc.collect()
    assert hook() is None
    assert hooks_of(nn.Module()) == nothing
    for thread in threading.enumerate():
        if thread.name == "tocsin-upload":
            thread.join()
    steps = written(run)
    assert list(steps) == [(TRAIN, 0), (TRAIN, 1)]
    assert "Net_fc1.weight" in steps[TRAIN, 1]
    assert not (run / "training_job_end.ts").exists()


@pytest.mark.parametrize("trained", [0, 1])
def test_a_model_that_nobody_keeps_is_warned_of(
    trained: int, run: Path, train: Any, caplog: pytest.LogCaptureFixture
) -> None:
    net = Net()
    TorchHook.attach(net, run, **EVERY)
    train(net, trained)
    del net
    gc.collect()
    assert ("deleted before its first step" in caplog.text) is not bool(trained)


def test_a_hook_does_not_keep_the_model_alive(run: Path, train: Any) -> None:
    net = Net()
    hook = TorchHook.attach(net, run, **EVERY)
    train(net, 2)
    alive = weakref.ref(net)
    del net
    gc.collect()
    assert alive() is None
    hook.close()


def pickled(model: nn.Module) -> nn.Module:
    return pickle.loads(pickle.dumps(model))  # noqa: S301 - our own


def saved(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved])
def test_copies_are_not_watched(
    copied: Callable[[nn.Module], nn.Module],
    net: Net,
    run: Path,
    train: Any,
    batch: Any,
    written: Read,
) -> None:
    hook = TorchHook.attach(net, run, **EVERY)
    train(net)
    twin = copied(net)
    assert torch.equal(twin(batch[0]), net(batch[0]))
    train(twin, 3)
    assert hook.position["TRAIN"] == 2
    hook.close()
    train(twin)
    assert len(written(run)) == 2
    TorchHook.attach(twin, run.parent / "twin", **EVERY).close()


def test_a_pickled_model_is_read_where_we_are_not(net: Net, run: Path, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with TorchHook.attach(model, run):
        torch.save(model, tmp_path / "model.pt")
        torch.save(model.state_dict(), tmp_path / "state.pt")
    script = """
import sys, torch
with torch.serialization.safe_globals([torch.nn.Sequential, torch.nn.Linear]):
    model = torch.load(sys.argv[1])
model.load_state_dict(torch.load(sys.argv[2]))
assert model(torch.ones(1, 2)).shape == (1, 2)
assert not [name for name in sys.modules if name.startswith("tocsin")]
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "model.pt", tmp_path / "state.pt"],
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_pickled_model_does_not_know_of_us(net: Net, run: Path, train: Any) -> None:
    net.register_forward_hook(print, with_kwargs=True).remove()
    kept = net.register_forward_hook(_nothing)
    before = pickle.dumps(net)
    hook = TorchHook.attach(net, run, **EVERY)
    during = pickle.dumps(net)
    hook.detach()
    assert during == pickle.dumps(net) == before
    kept.remove()
    assert not vars(net._forward_hooks)


def _nothing(*_: Any) -> None:
    """Take part in a forward pass of no effect."""


def test_the_state_of_a_model_does_not_know_of_us(net: Net, run: Path, train: Any) -> None:
    before = list(net.state_dict())
    with TorchHook.attach(net, run, **EVERY):
        train(net)
        assert list(net.state_dict()) == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_forward_pass_that_raises(
    error: type[BaseException], net: Net, run: Path, train: Any, written: Read
) -> None:
    before = hooks_of(net)
    saves = Watch(rules=(RuleConfig("VanishingGradient"), RuleConfig("DeadRelu")))
    hook = TorchHook.attach(net, run, watch=saves, **EVERY)
    attached = hooks_of(net)
    optimizer = train(net)
    fails = net.fc2.register_forward_pre_hook(_raise(error))
    with pytest.raises(error):
        train(net, 1, optimizer)
    fails.remove()
    if error is ValueError:
        assert hooks_of(net) == attached
    train(net, 2, optimizer)
    hook.close()
    assert hooks_of(net) == before
    steps = written(run)
    assert {"relu1_output_0", "gradient/Net_fc1.weight"} <= set(max(steps.items())[1])
    assert hook.stats.errors == 0


def _raise(error: type[BaseException]) -> Callable[..., None]:
    def hook(*_: object) -> None:
        raise error("no")

    return hook


def test_forward_called_by_itself(net: Net, run: Path, batch: Any, written: Read) -> None:
    """Then the optimizer tells the steps."""
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with TorchHook.attach(net, run, **EVERY) as hook:
        for _ in range(3):
            update(optimizer, nn.CrossEntropyLoss()(net.forward(batch[0]), batch[1]))
        with torch.no_grad():
            nn.CrossEntropyLoss()(net.forward(batch[0]), batch[1])
    assert hook.stats.errors == 0
    steps = written(run)
    assert list(steps) == [(TRAIN, 0), (TRAIN, 1), (TRAIN, 2)]
    assert all("gradient/Net_fc1.weight" in found for found in steps.values())
    assert ["CrossEntropyLoss_output_0" in found for found in steps.values()] == [False, True, True]


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_tracing_is_no_training(net: Net, run: Path, batch: Any, written: Read) -> None:
    with TorchHook.attach(net, run, **EVERY) as hook:
        torch.jit.trace(net, batch[0], check_trace=False)
        torch.export.export(net, (batch[0],))
        torch.fx.symbolic_trace(net)
    assert hook.stats.errors == 0
    assert hook.position["GLOBAL"] == 0


@pytest.mark.filterwarnings("error")
def test_parameters_that_were_computed_have_no_gradient_to_ask_for(
    net: Net, run: Path, batch: Any
) -> None:
    """As in meta-learning, which calls the model with parameters that are adapted to a task."""
    images, labels = batch
    with TorchHook.attach(net, run, **EVERY) as hook:
        own = dict(net.named_parameters())
        loss = nn.functional.cross_entropy(torch.func.functional_call(net, own, (images,)), labels)
        found = torch.autograd.grad(loss, [*own.values()], create_graph=True)
        adapted = {name: own[name] - 0.1 * each for name, each in zip(own, found, strict=True)}
        output = torch.func.functional_call(net, adapted, (images,))
        nn.functional.cross_entropy(output, labels).backward()
    assert hook.stats.errors == 0


@pytest.mark.parametrize("by_autograd", [True, False])
def test_function_transforms_are_left_alone(
    by_autograd: bool, net: Net, run: Path, batch: Any, written: Read
) -> None:
    """Then the optimizer says where steps begin."""
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def one(parameters: Any, x: Any, y: Any) -> Any:
        found = torch.func.functional_call(net, parameters, (x[None],))
        return nn.functional.cross_entropy(found, y[None])

    def gradients_of_each(parameters: Any) -> Any:
        each = torch.func.vmap(torch.func.grad(one), (None, 0, 0))
        return each({name: value.detach() for name, value in parameters.items()}, *batch)

    with TorchHook.attach(net, run, **EVERY) as hook:
        for _ in range(3):
            parameters = dict(net.named_parameters())
            optimizer.zero_grad()
            if by_autograd:
                torch.func.vmap(one, (None, 0, 0))(parameters, *batch).mean().backward()
            else:
                for name, found in gradients_of_each(parameters).items():
                    parameters[name].grad = found.mean(0)
            optimizer.step()
    assert hook.stats.errors == 0
    steps = written(run)
    assert list(steps) == [(TRAIN, 0), (TRAIN, 1), (TRAIN, 2)]
    assert all("gradient/Net_fc1.weight" in found for found in steps.values())
    later = by_autograd  # before the first update nothing is known to be trained
    assert ["loss" in found for found in steps.values()] == [False, later, later]


SCRIPT = """
import sys, torch
from torch import nn
from tocsin_hooks.torch import TorchHook

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
TorchHook.attach(model, sys.argv[1], save_interval=1, max_overhead=1.0)
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    optimizer.zero_grad()
    nn.MSELoss()(model(torch.ones(3, 4)), torch.ones(3, 2)).backward()
    optimizer.step()
"""


FUNCTION = "def main():" + SCRIPT.replace("\n", "\n    ") + "\nmain()\n"
"""The same, with a model that is gone before the script ends."""


@pytest.mark.parametrize(
    ("script", "end", "code", "marker"),
    [
        (SCRIPT, "", 0, True),
        (FUNCTION, "", 0, True),
        (SCRIPT, "raise RuntimeError('out of memory')", 1, False),
        (FUNCTION, "raise RuntimeError('out of memory')", 1, False),
        (SCRIPT, "import os; os._exit(0)", 0, False),
        (SCRIPT, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, False),
    ],
    ids=["clean", "clean, function", "exception", "exception, function", "_exit", "SIGTERM"],
)
def test_a_script_of_two_lines_writes_everything(
    script: str, end: str, code: int, marker: bool, run: Path, written: Read
) -> None:
    """Whatever its end is, without a warning. A clean exit is the end of the run."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script + end, str(run)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Warning" not in done.stderr
    if end.startswith("import"):  # it may be cut off in the middle
        assert not marker
    else:
        steps = written(run)
        assert list(steps) == [(TRAIN, step) for step in range(3)]
        assert {"MSELoss_output_0", "Sequential_0.weight", "1_output_0"} <= set(steps[TRAIN, 2])
    assert (run / "training_job_end.ts").exists() is marker


def test_what_an_import_brings() -> None:
    script = """
import sys, torch
before = set(sys.modules)
import tocsin_hooks.torch
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    others = {
        "boto3",
        "botocore",
        "keras",
        "tensorflow",
        "lightning",
        "transformers",
        "xgboost",
        "google",
    }
    assert not others & set(done.stdout.split())
