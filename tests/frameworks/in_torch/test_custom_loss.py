"""Losses that a script computes itself, beside those of the same outputs in another order."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from numpy.typing import NDArray
from tocsin.model import Mode, Role
from tocsin.tensors import LocalStorage, index_objects, read_index, read_values
from tocsin.watch import Capture, CollectionConfig
from tocsin_hooks.script_line import caller_at
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.calls.tape import CannotReplay, Tape
from torch import nn

from tests.frameworks.in_torch.runs import update

ASKED = Capture(collections={"skills": CollectionConfig(save_raw_tensor=True)})
Loss = Callable[[nn.Module, Any, Any], Any]
WEIGHTS = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
SIZE = 32
HERE = caller_at(sys._getframe())


def compared(run: Path) -> NDArray[np.float64]:
    """All comparisons: loss, re-paired, of a constant, samples."""
    storage, found = LocalStorage(run), [np.empty((0, 4))]
    for each in index_objects(storage):
        index = read_index(storage, each)
        names = [entry.name for entry in index.entries if entry.role == Role.SKILL]
        assert index.mode is Mode.TRAIN
        found += [np.asarray(v) for v in read_values(storage, index, names).values()]
    return np.concatenate(found)


def train(run: Path, loss: Loss, *, learns: bool = True, steps: int = 80) -> NDArray[np.float64]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(steps):
            x = torch.randn(SIZE, 8)
            y = x @ WEIGHTS
            update(optimizer, loss(model, x, y if learns else y[torch.randperm(SIZE)]))
        assert hook.stats.errors == 0
    return compared(run)


def skill(rows: NDArray[np.float64]) -> float:
    last = rows[-30:]
    return float(np.mean((last[:, 1] - last[:, 0]) / np.abs(last[:, 1])))


def pinball(model: nn.Module, x: Any, y: Any) -> Any:
    total, output = torch.zeros(()), model(x)
    for q in (0.1, 0.5, 0.9):
        error = y - output
        total += torch.maximum(q * error, (q - 1) * error).mean()
    return total / 3


def focal(model: nn.Module, x: Any, y: Any) -> Any:
    logits = model(x)
    log_p = (logits - logits.logsumexp(1, keepdim=True))[torch.arange(SIZE), y.argmax(1)]
    return -((1 - log_p.exp()) ** 2 * log_p).mean()


def partial_likelihood(model: nn.Module, x: Any, y: Any) -> Any:
    risk, order = model(x)[:, 0], y[:, 0].argsort(descending=True)
    return -(risk[order] - risk[order].logcumsumexp(0)).mean()


def sequences(model: nn.Module, x: Any, y: Any) -> Any:
    """CTC: the class of the largest number, in two steps of time."""
    scores = model(x).unsqueeze(0).expand(2, -1, -1).log_softmax(2)
    labels = 1 + (y[:, 0] > 0).long().unsqueeze(1)
    lengths = torch.full((SIZE,), 2)
    return F.ctc_loss(scores, labels, lengths, torch.ones(SIZE, dtype=torch.long))


def by_scaler(model: nn.Module, x: Any, y: Any) -> Any:
    return (model(x) - y).square().mean() * 1024.0


PAIRED: dict[str, Loss] = {
    "squares": lambda model, x, y: ((model(x) - y) ** 2).mean(),
    "pinball": pinball,
    "focal": focal,
    "partial likelihood": partial_likelihood,
    "ctc": sequences,
    "scaled": by_scaler,
    "log-cosh": lambda model, x, y: (model(x) - y).cosh().log().sum(1).mean(),
    "autocast": lambda model, x, y: _autocast(model, x, y),
    "filled in": lambda model, x, y: _filled(model(x), y),
}


def _filled(output: Any, y: Any) -> Any:
    errors = torch.zeros(SIZE, 3)
    for column in range(3):
        errors[:, column] = output[:, column] - y[:, column]
    return errors.abs().mean()


def _autocast(model: nn.Module, x: Any, y: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return F.linear(model(x) - y, torch.eye(3)).square().mean()


@pytest.mark.parametrize("name", PAIRED)
def test_what_is_learned_shows(name: str, run: Path) -> None:
    rows = train(run, PAIRED[name])
    rows = rows[np.isfinite(rows[:, 0])]  # with half precision a small difference is a tie
    assert len(rows) > 60
    assert np.isfinite(rows).all()
    assert (rows[:, 3] == SIZE).all()
    assert skill(rows) > 0.1
    assert rows[-30:, 0].mean() < rows[-30:, 2].mean()  # the mean output is worse


def test_outputs_that_are_far_from_their_labels_at_first(run: Path) -> None:
    """As long as all of them are too small, each may have any label."""
    rows = train(run, lambda model, x, y: (model(x) - y - 30).abs().mean(), steps=300)
    assert not np.isfinite(rows[:20, 0]).any()
    assert np.isfinite(rows[-30:, 0]).all()
    assert skill(rows) > 0.1


@pytest.mark.parametrize("name", PAIRED)
def test_labels_of_others_teach_nothing(name: str, run: Path) -> None:
    rows = train(run, PAIRED[name], learns=False)
    assert not len(rows := rows[np.isfinite(rows[:, 0])]) or abs(skill(rows)) < 0.08


def test_two_views_are_compared_with_each_other(run: Path) -> None:
    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        one, other = (F.normalize(model(x + 0.1 * torch.randn_like(x)), dim=1) for _ in range(2))
        likeness = one @ other.T / 0.1
        return -(likeness.diag() - likeness.logsumexp(1)).mean()

    rows = train(run, loss)
    rows = rows[np.isfinite(rows[:, 0])]
    assert len(rows) > 60
    assert skill(rows) > 0.3


def _sampled(model: nn.Module, x: Any, y: Any) -> Any:
    policy = torch.distributions.Categorical(logits=model(x))
    action = policy.sample()
    return -(policy.log_prob(action) * (action == y.argmax(1))).mean()


UNPAIRED: dict[str, Loss] = {
    "a critic": lambda model, x, y: (model(x[:16]) - model(x[16:])).mean().square() + 1,
    "samples of a policy": _sampled,
    "both signs": lambda model, x, y: (model(x) - y).mean() * (-1) ** int(x[0, 0] > 0),
    "dropout": lambda model, x, y: (F.dropout(model(x), 0.5) - y).abs().mean(),
    "one sample": lambda model, x, y: (model(x[:1]) - y[:1]).abs().mean(),
    "by itself": lambda model, x, y: model(x).square().mean(),
    "gradients of the output": lambda model, x, y: _penalty(model, x, y),
}


def _penalty(model: nn.Module, x: Any, y: Any) -> Any:
    x = x.requires_grad_()
    output = model(x)
    (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    return (slope.sum(1) - y[:, 0]).square().mean() + 0 * output.sum()


@pytest.mark.parametrize("name", UNPAIRED)
def test_what_has_no_pairs_is_not_compared(name: str, run: Path) -> None:
    assert not np.isfinite(train(run, UNPAIRED[name], steps=40)).any()


def test_running_means_stay_as_they_are(run: Path) -> None:
    norm = nn.BatchNorm1d(3)
    rows = train(run, lambda model, x, y: (norm(model(x)) - y).abs().mean(), steps=20)
    assert norm.num_batches_tracked == 20
    assert not np.isfinite(rows).any()


def test_what_was_changed_since_cannot_be_replayed() -> None:
    tape, output = Tape(), torch.ones(4, 2, requires_grad=True)
    labels = torch.zeros(4, 2)
    tape.begin([output])
    call = tape.before(torch.sub, (output, labels), {}, HERE)
    assert call is not None
    found = output - labels
    tape.after(call, output, found)
    assert tape.replay(found, torch.zeros_like, [output]) == 0.0
    labels += 1
    with pytest.raises(CannotReplay):
        tape.replay(found, torch.zeros_like, [output])


@pytest.mark.parametrize("softmax", [F.softmax, nn.Softmax()])
def test_a_warning_of_a_replay_names_no_file_of_ours(run: Path, softmax: Any) -> None:
    def loss(model: nn.Module, x: Any, y: Any) -> Any:
        return (softmax(model(x)) - y).square().mean()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(train(run, loss, steps=20))
    files = {each.filename for each in caught if "softmax" in str(each.message)}
    assert files
    assert not any("tocsin_hooks" in each for each in files)


def test_a_tape_that_gets_too_long_is_given_up() -> None:
    tape, output = Tape(), torch.ones(2, requires_grad=True)
    tape.begin([output])
    for _ in range(600):
        call = tape.before(torch.neg, (output,), {}, HERE)
        if call is None:
            break
        tape.after(call, output, -output)
    assert not tape.is_recording


def test_optimizers_that_share_a_pass_are_no_opponents(run: Path) -> None:
    body, head = nn.Linear(8, 16), nn.Linear(16, 3)
    model = nn.Sequential(body, nn.ReLU(), head)
    optimizers = [torch.optim.Adam(each.parameters(), 1e-2) for each in (body, head)]
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None):
        for _ in range(30):
            x = torch.randn(SIZE, 8)
            for each in optimizers:
                each.zero_grad()
            (model(x) - x @ WEIGHTS).square().mean().backward()
            for each in optimizers:
                each.step()
    assert len(compared(run)) > 20
