"""A model that nobody updates."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.model import Mode
from tocsin.trial import create_trial
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.test_contracts import ASKED, broken


def loop(
    run: Path,
    cleared: str = "before",
    *,
    steps: int = 120,
    updated: int = 0,
    by_hand: bool = False,
    samples: int = 16,
) -> TorchHook:
    """Evaluates every 40 steps. Gradients are cleared before the forward pass, or ``after`` it, or
    set to ``zero``, or never; the optimizer updates the model every ``updated`` steps, if any."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for step in range(steps):
            x, y = torch.randn(samples, 8), torch.randint(4, (samples,))
            if cleared == "before":
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            if cleared in ("after", "zero"):
                optimizer.zero_grad(set_to_none=cleared == "after")
            loss.backward()
            if updated and step % updated == updated - 1:
                optimizer.step()
                optimizer.zero_grad()
            if by_hand:
                with torch.no_grad():
                    for each in model.parameters():
                        each -= 1e-2 * each.grad
            if step % 40 == 39:
                model.eval()
                with torch.no_grad():
                    F.cross_entropy(model(x), y)
                model.train()
    assert hook.stats.errors == 0
    assert not any(each._post_accumulate_grad_hooks for each in model.parameters())
    return hook


@pytest.mark.parametrize("cleared", ["before", "after", "zero"])
@pytest.mark.parametrize("steps", [120, 241])  # the last one is saved, or not
def test_gradients_that_are_cleared_without_an_update(run: Path, cleared: str, steps: int) -> None:
    loop(run, cleared, steps=steps)
    assert {*broken(run)} == {"optimizer_step_missing"}
    assert len(create_trial(run).steps(mode=Mode.TRAIN)) > 5, "each pass is a step at last"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"updated": 1}, id="updated"),
        pytest.param({"cleared": "after", "updated": 30}, id="skipped now and then"),
        pytest.param({"cleared": "never", "updated": 60}, id="accumulated for long"),
        pytest.param({"by_hand": True}, id="updated by hand"),
        pytest.param({"steps": 40}, id="a short look"),
        pytest.param({"samples": 1, "steps": 300, "updated": 128}, id="each sample by itself"),
    ],
)
def test_healthy_loops(run: Path, options: dict[str, object]) -> None:
    loop(run, **options)  # type: ignore[arg-type]
    assert broken(run) == {}
