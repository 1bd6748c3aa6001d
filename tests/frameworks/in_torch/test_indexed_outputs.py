"""Losses of what is picked from an output: nodes of a graph, tokens behind a mask, some columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin import create_trial
from tocsin.model import Mode
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import update

NODES, CLASSES = 60, 4
EVERY: dict[str, Any] = {"save_interval": 1, "max_overhead": None}
Judge = Callable[[Any, Any, Any], Any]


def picked_first(output: Any, labels: Any, nodes: Any) -> Any:
    return (output[nodes].argmax(1) == labels[nodes]).float().mean()


def picked_last(output: Any, labels: Any, nodes: Any) -> Any:
    return output.max(1)[1][nodes].eq(labels[nodes]).sum()


def of_all(output: Any, labels: Any, nodes: Any) -> Any:
    return (output.argmax(1) == labels)[nodes].float().mean()


def by_the_loss(output: Any, labels: Any, nodes: Any) -> Any:
    return F.cross_entropy(output[nodes], labels[nodes])


def watched(model: nn.Module, run: Path) -> TorchHook:
    skills = CollectionConfig(save_raw_tensor=True)
    asked = Capture(collections={"losses": CollectionConfig(), "skills": skills})
    return TorchHook.attach(model, run, capture=asked, **EVERY)


def compared(run: Path) -> list[Any]:
    trial = create_trial(str(run))
    found = [trial.tensor(name) for name in trial.tensor_names(collection="skills")]
    return [
        t.value(t.steps(mode=Mode.EVAL)[0], mode=Mode.EVAL) for t in found if t.steps(Mode.EVAL)
    ]


@pytest.mark.parametrize(
    ("judge", "places", "seen", "saved"),
    [
        (picked_first, False, True, False),
        (picked_first, True, True, False),
        (picked_last, False, True, False),
        (of_all, False, False, False),
        (by_the_loss, False, True, True),
        (by_the_loss, True, True, True),
    ],
)
def test_nodes_that_were_trained_on_are_not_held_out(
    judge: Judge, places: bool, seen: bool, saved: bool, run: Path
) -> None:
    torch.manual_seed(0)
    x, labels = torch.randn(NODES, 8), torch.randint(0, CLASSES, (NODES,))
    known = torch.arange(NODES) < 20
    sets = [known.nonzero()[:, 0], (~known).nonzero()[:, 0]] if places else [known, ~known]
    model = nn.Linear(8, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watched(model, run) as hook:
        for _ in range(5):
            update(optimizer, F.cross_entropy(model(x)[sets[0]], labels[sets[0]]))
        model.eval()
        with torch.no_grad():
            output = model(x)
            for each in sets:
                judge(output, labels, each)
        assert hook.stats.errors == 0
    held_out = F.cross_entropy(model(x)[sets[1]], labels[sets[1]]).item()
    rows = compared(run)
    assert len(rows) == seen
    assert all(each[:, 0] == pytest.approx([held_out]) for each in rows)
    trial = create_trial(str(run))
    names = trial.tensor_names(collection="losses", mode=Mode.EVAL)
    losses = [trial.tensor(each).values(mode=Mode.EVAL) for each in names]
    assert losses == ([{0: pytest.approx(held_out)}] if saved else [])


def before_the_argmax(output: Any, labels: Any, mask: Any) -> Any:
    return (output[mask].argmax(-1) == labels[mask]).sum()


def after_the_argmax(output: Any, labels: Any, mask: Any) -> Any:
    return (output.argmax(-1)[mask] == labels[mask]).sum()


@pytest.mark.parametrize("judge", [before_the_argmax, after_the_argmax])
def test_tokens_behind_a_mask_have_a_loss_in_evaluations(judge: Judge, run: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def batch() -> tuple[Any, Any, Any]:
        return torch.randn(6, 9, 8), torch.randint(0, CLASSES, (6, 9)), torch.rand(6, 9) < 0.7

    with watched(model, run) as hook:
        for _ in range(5):
            x, labels, mask = batch()
            update(optimizer, F.cross_entropy(model(x)[mask], labels[mask]))
        model.eval()
        x, labels, mask = batch()
        with torch.no_grad():
            judge(model(x), labels, mask)
        assert hook.stats.errors == 0
    expected = F.cross_entropy(model(x)[mask], labels[mask]).item()
    assert [each[:, 0] for each in compared(run)] == [pytest.approx([expected])]
    found = create_trial(str(run)).tensor("loss").values(mode=Mode.EVAL)
    assert found == {0: pytest.approx(expected)}


def test_columns_that_are_picked_of_all_samples(run: Path) -> None:
    """Of samples that were not trained on, these are a loss like any other."""
    columns = torch.tensor([0, 2])
    model = nn.Linear(8, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watched(model, run) as hook:
        for _ in range(5):
            update(optimizer, F.mse_loss(model(torch.randn(16, 8))[:, columns], torch.randn(16, 2)))
        model.eval()
        with torch.no_grad():
            value = F.mse_loss(model(torch.randn(16, 8))[:, columns], torch.randn(16, 2)).item()
        assert hook.stats.errors == 0
    found = create_trial(str(run)).tensor("loss").values(mode=Mode.EVAL)
    assert found == {0: pytest.approx(value)}
