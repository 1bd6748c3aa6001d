"""Hashes that show how many different samples a model is trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tocsin import create_trial, modes
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import update

ROWS = torch.randn(3000, 12, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, rows: Any) -> Any:
        return self.head(self.words(rows).mean(1))


def train(model: Any, batches: Iterator[Any], run: Path, interval: int = 5) -> list[Any]:
    """The values of ``samples`` at each save."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=interval, max_overhead=None) as hook:
        for rows in batches:
            optimizer.zero_grad()
            labels = torch.zeros(len(rows), dtype=torch.int64)
            nn.functional.cross_entropy(model(rows), labels).backward()
            optimizer.step()
        assert hook.stats.errors == 0
    trial = create_trial(str(run))
    assert trial.tensor_names(collection="samples") == ["samples"]
    tensor = trial.tensor("samples")
    return [tensor.value(step) for step in tensor.steps()]


def estimated(values: list[Any]) -> float:
    found = np.unique(np.concatenate([value[3:] for value in values]))
    found = found[found <= 1]
    return len(found) if len(found) < 64 else 63 / found[63]


def drawn(count: int, steps: int = 41, seed: int = 0) -> Iterator[Any]:
    draw = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield ROWS[torch.randint(count, (16,), generator=draw)]


def test_all_steps_count_whatever_is_saved(run: Path) -> None:
    values = train(nn.Linear(12, 2), drawn(20), run)
    steps, samples = sum(v[0] for v in values), sum(v[1] for v in values)
    assert (steps, samples) == (41, 41 * 16)
    assert {v[2] for v in values} == {12}
    assert estimated(values) == 20


CASES: dict[str, tuple[Callable[[int], Any], float, float]] = {
    "one batch": (lambda at: ROWS[:16], 16, 0.0),
    "in another order": (lambda at: ROWS[torch.randperm(16)], 16, 0.0),
    "in other company": (lambda at: ROWS[: 4 + at % 13], 16, 0.0),
    "all different": (lambda at: ROWS[16 * at : 16 * at + 16], 656, 0.4),
    "with noise": (lambda at: ROWS[:16] + 1e-3 * torch.randn(16, 12), 656, 0.4),
    "tiny numbers": (lambda at: 1e-20 * ROWS[:16], 16, 0.0),
    "not finite": (lambda at: ROWS[:16] / 0, 1, 0.0),
    "one zero after another": (lambda at: torch.zeros(16, 12), 1, 0.0),
    "half precision": (lambda at: ROWS[:16].half().float(), 16, 0.0),
}


@pytest.mark.parametrize("name", CASES)
def test_different_samples(name: str, run: Path) -> None:
    make, expected, error = CASES[name]
    values = train(nn.Linear(12, 2), (make(at) for at in range(41)), run)
    assert estimated(values) == pytest.approx(expected, rel=error)


def test_tokens_with_more_padding_are_the_same(run: Path) -> None:
    ids = torch.randint(1, 50, (8, 6), generator=torch.Generator().manual_seed(1))
    batches = (torch.cat([ids, torch.zeros(8, at % 5, dtype=torch.int64)], 1) for at in range(41))
    assert estimated(train(Net(), batches, run)) == 8


def test_a_model_of_no_samples_says_nothing(run: Path) -> None:
    class Alone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self) -> Any:
            return self.weight.square().sum()

    model = Alone()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None) as hook:
        for _ in range(3):
            update(optimizer, model())
        assert hook.stats.errors == 0
    assert not create_trial(str(run)).tensor_names(collection="samples")


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(12, 2)

    def forward(self, edges: Any, rows: Any) -> Any:
        return self.head(rows) + edges.mean()


@pytest.mark.parametrize("edges", [torch.eye(20), torch.ones(2, 40)])
def test_inputs_of_several_lengths_are_not_counted(edges: Any, run: Path) -> None:
    model = Graph()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None) as hook:
        for _ in range(3):
            update(optimizer, model(edges, ROWS[:16]).square().mean())
        assert hook.stats.errors == 0
    found = create_trial(str(run))
    assert not found.tensor_names(collection="samples")
    assert found.tensor_names(collection="losses")


class Carried(nn.Module):
    """A recurrent network whose state is carried from batch to batch."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.RNN(12, 4)

    def forward(self, rows: Any, state: Any = None) -> Any:
        return self.recurrent(rows[:, None], state)


def test_where_a_state_is_carried_the_first_batches_are_not_all(run: Path) -> None:
    """Each epoch begins with the same batch, and without a state."""
    model = Carried()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None) as hook:
        for _ in range(3):
            state = None
            for first in range(0, 64, 16):
                found, state = model(ROWS[first : first + 16], state)
                state = state.detach()
                found.square().mean().backward()
                optimizer.step()
        assert hook.stats.errors == 0
    assert create_trial(str(run)).tensor("samples").steps() == [0]


def test_places_of_tokens_are_no_samples(run: Path) -> None:
    """``model.forward`` is called, and its first part is given some of what the model is given."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None) as hook:
        for _ in range(4):
            update(optimizer, model.forward(torch.arange(5).repeat(8, 1)).square().mean())
        assert hook.stats.errors == 0
    assert not create_trial(str(run)).tensor_names(collection="samples")


@pytest.mark.parametrize(
    ("trained", "evaluated", "expected"),
    [
        (ROWS[:300], ROWS[:300], 1.0),
        (ROWS[:300], ROWS[300:600], 0.0),
        (ROWS[:300], ROWS[150:450], 0.5),
        (ROWS[:300].round(), ROWS[:300].round(), None),  # whole numbers are met by chance
    ],
)
def test_samples_of_evaluations(
    trained: Any, evaluated: Any, expected: float | None, run: Path
) -> None:
    """The share of their hashes that training has, too."""
    model = nn.Linear(12, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None) as hook:
        for rows in trained.split(60):
            update(optimizer, model.train()(rows).square().mean())
        model.eval()
        with torch.no_grad():
            for rows in evaluated.split(100):
                nn.functional.mse_loss(model(rows), torch.zeros(len(rows), 2))
        assert hook.stats.errors == 0
    tensor = create_trial(str(run)).tensor("samples")
    ours = {each for at in tensor.steps(modes.TRAIN) for each in tensor.value(at, modes.TRAIN)[3:]}
    (at,) = tensor.steps(modes.EVAL)
    theirs = {each for each in tensor.value(at, modes.EVAL)[3:] if 0 < each <= 1}
    assert bool(theirs) is (expected is not None)
    if expected is not None:
        smallest = {each for each in theirs if each <= 0.15}  # all of which are kept
        assert len(smallest & ours) / len(smallest) == pytest.approx(expected, abs=0.25)


def test_points_in_one_batch_have_the_elements_of_a_point(run: Path) -> None:
    points = torch.rand(1, 50, 2)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None):
        for _ in range(3):
            update(optimizer, model(points).square().mean())
    assert create_trial(str(run)).tensor("samples").value(1)[2] == 2


def test_a_failure_costs_nothing_else(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no such operation here")

    monkeypatch.setattr(torch, "mv", fail)
    model = nn.Linear(12, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=1, max_overhead=None) as hook:
        for _ in range(3):
            update(optimizer, nn.functional.cross_entropy(model(ROWS[:8]), torch.zeros(8).long()))
        assert hook.stats.errors
    found = create_trial(str(run))
    assert found.tensor_names(collection="losses")
    assert not found.tensor_names(collection="samples")


def test_single_sequences_are_no_batches_of_their_parts(run: Path) -> None:
    """As the letters of names, (time, 1, features)."""
    letters, draw = torch.eye(12), torch.Generator().manual_seed(0)

    class Names(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.GRU(12, 6), nn.Linear(6, 2)

        def forward(self, name: Any) -> Any:
            return self.head(self.body(name)[1][0])

    model = Names()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None) as hook:
        for _ in range(60):
            length = int(torch.randint(3, 9, (), generator=draw))
            name = letters[torch.randint(12, (length, 1), generator=draw)]
            loss = nn.functional.cross_entropy(model(name), torch.zeros(1, dtype=torch.int64))
            update(optimizer, loss)
        assert hook.stats.errors == 0
    tensor = create_trial(str(run)).tensor("samples")
    assert all(step < 20 for step in tensor.steps())
