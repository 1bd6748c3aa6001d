"""``torch.compile``."""

from __future__ import annotations

import copy
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tocsin.model import Mode
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import update

from .conftest import Written, hooks_of

Read = Callable[[Path], Written]
EVERY = {"save_interval": 1, "max_overhead": 1.0}
COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
PARAMETERS = {"Net_fc1.weight", "gradient/Net_fc2.bias", "learning_rate"}
LOSS = "CrossEntropyLoss_output_0"
SKILL = "CrossEntropyLoss/skill"


def losses_of(model: nn.Module, batch: Any, count: int = 4) -> list[float]:
    found = []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    criterion = nn.CrossEntropyLoss()
    for _ in range(count):
        optimizer.zero_grad()
        loss = criterion(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    model.eval()
    with torch.no_grad():
        criterion(model(batch[0]), batch[1])
    model.train()
    return found


def _attach_then_compile(net: nn.Module, run: Path, **how: Any) -> tuple[TorchHook, Any]:
    hook = TorchHook.attach(net, run, **EVERY)
    return hook, torch.compile(net, **how)


def _compile_then_attach(net: nn.Module, run: Path, **how: Any) -> tuple[TorchHook, Any]:
    compiled = torch.compile(net, **how)
    return TorchHook.attach(compiled, run, **EVERY), compiled


def _attach_what_was_compiled(net: nn.Module, run: Path, **how: Any) -> tuple[TorchHook, Any]:
    compiled = torch.compile(net, **how)
    return TorchHook.attach(net, run, **EVERY), compiled


def _attach_then_compile_in_place(net: nn.Module, run: Path, **how: Any) -> tuple[TorchHook, Any]:
    hook = TorchHook.attach(net, run, **EVERY)
    net.compile(**how)
    return hook, net


def _compile_in_place_then_attach(net: nn.Module, run: Path, **how: Any) -> tuple[TorchHook, Any]:
    net.compile(**how)
    return TorchHook.attach(net, run, **EVERY), net


WAYS = {
    _attach_then_compile: 4,
    _compile_then_attach: 4,
    _attach_what_was_compiled: 3,
    _attach_then_compile_in_place: 3,
    _compile_in_place_then_attach: 3,
}
"""Ways to come to a compiled model that is watched, and how many of four losses are seen."""
COMPARED = (_attach_then_compile, _compile_then_attach, _attach_what_was_compiled)
"""The ways in which forward passes are seen, so that losses are compared."""


@pytest.mark.parametrize(
    ("way", "backend"),
    [
        *((way, "eager") for way in WAYS),
        pytest.param(_attach_then_compile, "inductor", marks=COMPILER),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.strip("_"),
)
def test_all_but_activations_is_captured(
    way: Any, backend: str, net: nn.Module, run: Path, batch: Any, written: Read
) -> None:
    plain = copy.deepcopy(net)
    before = hooks_of(net)
    warnings.simplefilter("ignore")  # pytest puts the filters back
    expected, compiled_alone = _counted(
        torch.compile(plain, backend=backend, fullgraph=True), batch
    )
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error" if backend == "eager" else "ignore")  # inductor itself warns
        hook, model = way(net, run, backend=backend, fullgraph=True)
        losses, compiled = _counted(model, batch)
    hook.close()
    assert losses == expected
    assert compiled == compiled_alone  # no graph more, none broken
    assert hook.stats.errors == 0
    training = [found for (mode, _), found in written(run).items() if mode is Mode.TRAIN]
    assert len(training) == 4
    assert all(set(found) >= PARAMETERS for found in training)
    assert sum(LOSS in found for found in training) == WAYS[way]
    assert any(SKILL in found for found in training) == (way in COMPARED)
    assert not [name for found in training for name in found if name.startswith("relu")]
    assert hooks_of(net) == before


def _counted(model: nn.Module, batch: Sequence[torch.Tensor]) -> tuple[list[float], dict[str, int]]:
    counters = torch._dynamo.utils.counters
    counters.clear()
    losses = losses_of(model, batch)
    assert not counters["graph_break"]
    return losses, dict(counters["stats"])


def test_evaluation_of_a_compiled_model(
    net: nn.Module, run: Path, batch: Any, written: Read, caplog: Any
) -> None:
    """Losses outside of it are found by themselves in training, else where they are named."""
    criterion = nn.CrossEntropyLoss()
    model = torch.compile(net, backend="eager")
    with warnings.catch_warnings(), TorchHook.attach(model, run, loss=criterion, **EVERY):
        warnings.simplefilter("error")
        model.eval()
        for _ in range(2):
            with torch.no_grad():
                criterion(model(batch[0]), batch[1])
    steps = written(run)
    assert list(steps) == [(Mode.EVAL, 0)]
    assert {LOSS, "Net_input_0", "CrossEntropyLoss_input_0"} <= set(steps[Mode.EVAL, 0])
    assert caplog.text.count("no activations are captured") == 1


@pytest.mark.filterwarnings("ignore")  # torch.compile's own
def test_a_compiled_part_is_one_module(run: Path, written: Read) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model.add_module(
        "part", torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="eager")
    )
    with TorchHook.attach(model, run, **EVERY) as hook:
        model(torch.ones(2, 4)).sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    found = written(run)[Mode.TRAIN, 0]
    assert hook.stats.errors == 0
    assert {"1_output_0", "Sequential_part.0.weight"} <= set(found)
    assert not [name for name in found if "_orig_mod" in name or name.startswith("part.1_")]


def test_accumulation_in_a_compiled_model(
    net: nn.Module, run: Path, batch: Any, written: Read
) -> None:
    model = torch.compile(net, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with warnings.catch_warnings(), TorchHook.attach(model, run, **EVERY):
        warnings.simplefilter("error")
        for _ in range(2):
            optimizer.zero_grad()
            for _ in range(3):
                nn.CrossEntropyLoss()(model(batch[0]), batch[1]).backward()
            optimizer.step()
    assert list(written(run)) == [(Mode.TRAIN, 0), (Mode.TRAIN, 1)]


def test_a_compiled_function_that_calls_the_model(
    net: nn.Module, run: Path, batch: Any, written: Read
) -> None:
    """It is compiled once, however often a step is saved."""
    criterion = nn.CrossEntropyLoss()
    step = torch.compile(lambda: criterion(net(batch[0]), batch[1]), backend="eager")
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    counters = torch._dynamo.utils.counters
    counters.clear()
    with warnings.catch_warnings(), TorchHook.attach(net, run, **EVERY) as hook:
        warnings.simplefilter("error")
        for _ in range(12):  # PyTorch gives up after eight
            update(optimizer, hook.record_loss(step()))
    assert counters["stats"]["unique_graphs"] == 1
    steps = written(run)
    assert list(steps) == [(Mode.TRAIN, number) for number in range(12)]
    assert all(set(found) >= PARAMETERS for found in steps.values())
    assert sum("loss" in found for found in steps.values()) == 11


def test_what_was_compiled_before_a_model_is_watched(
    net: nn.Module, run: Path, batch: Any, written: Read
) -> None:
    """Says nothing of how the model is called: its losses are seen."""
    torch.compile(nn.Linear(4, 2), backend="eager")(batch[0])
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with TorchHook.attach(net, run, **EVERY):
        for _ in range(3):
            update(optimizer, nn.CrossEntropyLoss()(net.forward(batch[0]), batch[1]))
    assert [LOSS in found for found in written(run).values()] == [False, True, True]


def test_a_function_compiled_with_the_model_before_that_is_watched(
    net: nn.Module, run: Path, batch: Any, written: Read
) -> None:
    """It is compiled once more at most, however often a step is saved."""
    criterion = nn.CrossEntropyLoss()
    step = torch.compile(lambda: criterion(net(batch[0]), batch[1]), backend="eager")
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    step().backward()
    counters = torch._dynamo.utils.counters
    before = counters["stats"]["unique_graphs"]
    with TorchHook.attach(net, run, **EVERY):
        for _ in range(12):
            update(optimizer, step())
    assert counters["stats"]["unique_graphs"] <= before + 1
    assert all(set(found) >= PARAMETERS for found in written(run).values())
