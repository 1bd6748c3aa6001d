"""Small trainings of which it is known what is right, and which were captured or judged wrongly."""

from __future__ import annotations

import copy
import gc
import logging
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.evaluation import check
from tocsin.model import RuleStatus
from tocsin.tensors import LocalStorage
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import indexes, update

Batch = tuple[torch.Tensor, torch.Tensor]


def net(inputs: int = 8, outputs: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def batch(size: int = 64) -> Batch:
    """Four classes, by the signs of two features."""
    x = torch.randn(size, 8)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def accuracy(model: nn.Module) -> float:
    x, y = batch(2000)
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def found(run: Path) -> set[str]:
    checkpoint, _ = check(LocalStorage(run))
    return {
        name for name, rule in checkpoint.rules.items() if rule.status is RuleStatus.ISSUES_FOUND
    }


def test_a_student_that_learns_from_a_teacher_is_better_than_guessing(run: Path) -> None:
    teacher, student = net(), net()
    optimizer = torch.optim.Adam(teacher.parameters(), 1e-2)
    for _ in range(200):
        x, y = batch()
        update(optimizer, F.cross_entropy(teacher(x), y))
    optimizer = torch.optim.Adam(student.parameters(), 1e-2)
    criterion = nn.KLDivLoss(reduction="batchmean")
    with TorchHook.attach(student, run, save_interval=5, max_overhead=None):
        for _ in range(200):
            x, _ = batch()
            taught = F.softmax(teacher(x).detach(), 1)
            update(optimizer, criterion(F.log_softmax(student(x), 1), taught))
    assert accuracy(student) > 0.9
    assert "NoBetterThanGuessing" not in found(run)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = net(outputs=1), net(outputs=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.a(x).squeeze(1), self.b(x).squeeze(1)


class FocalLoss(nn.Module):
    """A loss that nobody knows."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(logits, labels)


def test_a_head_is_not_judged_by_the_labels_of_another(run: Path) -> None:
    model, mse, focal = TwoHeads(), nn.MSELoss(), FocalLoss()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for _ in range(200):
            x, y = batch()
            a, b = model(x)
            kept = (y >= 2).float()
            loss = focal(a, (y % 2).float()) + mse(b * kept, x[:, 1] * kept)
            update(optimizer, loss)
    x, y = batch(2000)
    assert ((model(x)[0] > 0).long() == y % 2).float().mean() > 0.9
    assert "NoBetterThanGuessing" not in found(run)


def test_both_of_two_optimizers_that_take_turns_are_saved(run: Path) -> None:
    both = nn.ModuleDict({"generator": net(4, 8), "critic": net(8, 1)})
    criterion, ones, zeros = nn.BCEWithLogitsLoss(), torch.ones(32, 1), torch.zeros(32, 1)
    generator, critic = both["generator"], both["critic"]
    of_generator = torch.optim.Adam(generator.parameters(), 1e-3)
    of_critic = torch.optim.Adam(critic.parameters(), 1e-3)
    with TorchHook.attach(both, run, save_interval=10, max_overhead=None):
        for _ in range(100):
            fake, real = generator(torch.randn(32, 4)), torch.randn(32, 8) + 1
            loss = criterion(critic(fake.detach()), zeros) + criterion(critic(real), ones)
            update(of_critic, loss)
            update(of_generator, criterion(critic(fake), ones))
    names = Counter(entry.name for index in indexes(run) for entry in index.entries)
    gradients = {
        part: names[f"gradient/ModuleDict_{part}.0.weight"] for part in ("generator", "critic")
    }
    assert min(gradients.values()) >= 5, gradients


def test_acting_without_gradients_is_no_evaluation(run: Path) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    with TorchHook.attach(model, run, save_interval=10, max_overhead=None) as hook:
        for _ in range(30):
            with torch.no_grad():
                for _ in range(30):
                    model(torch.randn(1, 8))
            x, y = batch()
            update(optimizer, hook.record_loss(F.cross_entropy(model(x), y)))
    assert Counter(index.mode.name for index in indexes(run)) == {"TRAIN": 3}


def test_a_temporary_module_that_nobody_holds_is_warned_of(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, criterion = net(), net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam([*a.parameters(), *b.parameters()], 1e-3)
    with caplog.at_level(logging.WARNING, "tocsin"):
        hook = TorchHook.attach(nn.ModuleList([a, b]), run)
        gc.collect()
        for _ in range(30):
            x, y = batch()
            update(optimizer, criterion(a(x) + b(x), y))
        hook.close()
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert hook.stats.saved or [text for text in warnings if "ModuleList" in text]


def test_a_layer_that_is_frozen_for_fine_tuning_is_meant(run: Path) -> None:
    model, criterion = nn.Sequential(net(outputs=32), nn.Linear(32, 4)), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(100):
        x, y = batch()
        update(optimizer, criterion(model(x), y % 2))
    model[0].requires_grad_(False)
    model[1] = nn.Linear(32, 4)
    optimizer = torch.optim.Adam(model[1].parameters(), 1e-2)
    with TorchHook.attach(model, run, save_interval=5, max_overhead=None):
        for _ in range(200):
            x, y = batch()
            update(optimizer, criterion(model(x), y))
    assert accuracy(model) > 0.6
    assert "FrozenParameters" not in found(run)


@pytest.mark.parametrize("stale", [True, False])
def test_an_optimizer_of_a_model_that_was_replaced(
    stale: bool, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of its updates ends a step, the model is captured, and the log says so once."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    model = copy.deepcopy(model) if stale else model
    with TorchHook.attach(model, run, save_interval=10, max_overhead=None):
        for _ in range(40):
            x, y = batch()
            update(optimizer, F.cross_entropy(model(x), y))
    found = indexes(run)
    assert [index.step for index in found] == [0, 10, 20, 30]
    names = {entry.name for entry in found[-1].entries}
    assert "gradient/Sequential_0.weight" in names
    assert caplog.text.count("no optimizer has updated the Sequential") == stale
