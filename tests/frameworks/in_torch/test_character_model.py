"""A language model whose ``forward`` returns its loss with its output, watched by two lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin.evaluation import check
from tocsin.model import RuleStatus
from tocsin.tensors import LocalStorage
from tocsin_hooks.torch import TorchHook
from torch import nn

TEXT = Path(__file__).parents[3] / "docs" / "architecture.md"
CONTEXT, WIDTH, HEADS, BATCH = 32, 32, 2, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.c_attn(self.ln_1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, characters: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.Sequential(Block(), Block())
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters, bias=False)
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(
        self, idx: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        logits = self.lm_head(self.ln_f(self.h(x)))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def text() -> tuple[torch.Tensor, int]:
    found = TEXT.read_text()
    numbers = {character: number for number, character in enumerate(sorted(set(found)))}
    return torch.tensor([numbers[each] for each in found]), len(numbers)


@pytest.mark.parametrize(("rate", "found"), [(5.0, True), (3e-3, False)])
def test_a_training_that_diverges_is_found(rate: float, found: bool, run: Path) -> None:
    data, characters = text()
    model = GPT(characters)
    hook = TorchHook.attach(model, run)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for _ in range(300):
        starts = torch.randint(len(data) - CONTEXT - 1, (BATCH, 1)) + torch.arange(CONTEXT)
        _, loss = model(data[starts], data[starts + 1])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    hook.close()
    checkpoint, _ = check(LocalStorage(run))
    fired = {
        name: each.details
        for name, each in checkpoint.rules.items()
        if each.status is RuleStatus.ISSUES_FOUND
    }
    assert bool(fired) is found, fired
    judged = {name for name, each in checkpoint.rules.items() if each.data_points}
    assert judged >= {"LossNotDecreasing", "LossDiverging", "ExplodingTensor"}
    if found:
        assert "loss" in " ".join(fired.values())
