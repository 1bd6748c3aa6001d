"""Predictions of texts that are padded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.torch import TorchHook
from tocsin_hooks.torch.contracts.padding import padding_of
from torch import nn

from tests.frameworks.in_torch.runs import update
from tests.frameworks.in_torch.test_contracts import ASKED, broken

WORDS, WIDTH, PLACES = 11, 16, 9


class Encoder(nn.Module):
    """A transformer whose first state is judged."""

    def __init__(self, *, hides: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)
        self.hides = hides

    def forward(self, tokens: Any) -> Any:
        mask = {"padding": tokens == 0, "tokens": tokens != 0, "nothing": None}[self.hides]
        return self.head(self.encoder(self.embed(tokens), src_key_padding_mask=mask)[:, 0])


class Pooled(nn.Module):
    """A weighted mean of states."""

    def __init__(self, *, turned: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 2)
        self.weigh = nn.Linear(WIDTH, 1)
        self.turned = turned

    def forward(self, tokens: Any) -> Any:
        states = torch.tanh(self.embed(tokens))
        hidden = (tokens != 0) if self.turned else (tokens == 0)
        share = self.weigh(states)[..., 0].masked_fill(hidden, -1e9).softmax(1)
        return self.head((share[..., None] * states).sum(1))


class Last(nn.Module):
    """A recurrent network whose last state has seen all the padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 2)
        self.cell = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.cell(self.embed(tokens))[0][:, -1])


class Translator(nn.Module):
    """Says the tokens of a text in another order."""

    def __init__(self, *, hides: str) -> None:
        super().__init__()
        self.heard, self.said = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.body = nn.Transformer(WIDTH, 2, 1, 1, 32, 0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)
        self.hides = hides

    def forward(self, tokens: Any, said: Any) -> Any:
        mask = {"padding": tokens == 0, "tokens": tokens != 0, "nothing": None}[self.hides]
        heard, before = self.heard(tokens), self.said(said)
        later = torch.triu(torch.ones(said.shape[1], said.shape[1], dtype=torch.bool), 1)
        states = self.body(
            heard, before, tgt_mask=later, src_key_padding_mask=mask, memory_key_padding_mask=mask
        )
        return self.head(states)


def texts(*, first: bool = False, longest: int = 7) -> Any:
    """Shape (32, PLACES), of 3 to ``longest`` tokens, beside zeros."""
    tokens = torch.randint(1, WORDS, (32, PLACES))
    tokens[torch.arange(PLACES) >= torch.randint(3, longest + 1, (32, 1))] = 0
    return tokens.flip(1) if first else tokens


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        (lambda: Encoder(hides="tokens"), {}, True),
        (lambda: Encoder(hides="padding"), {}, False),
        (lambda: Encoder(hides="nothing"), {}, False),
        (lambda: Encoder(hides="tokens"), {"longest": 3}, False),  # all are of one length
        (lambda: Pooled(turned=True), {}, True),
        (lambda: Pooled(turned=True), {"first": True}, True),
        (lambda: Pooled(turned=False), {}, False),
        (Last, {}, False),
    ],
)
def test_masks(model: Any, given: dict[str, Any], expected: bool, run: Path) -> None:
    torch.manual_seed(0)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 1e-2)
    with TorchHook.attach(net, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(20):
            tokens = texts(**given)
            update(optimizer, F.cross_entropy(net(tokens), tokens.sum(1) % 2))
        assert hook.stats.errors == 0
    assert ("padding_mask_inverted" in broken(run)) is expected


@pytest.mark.parametrize(
    ("hides", "expected"), [("tokens", True), ("padding", False), ("nothing", False)]
)
def test_masks_of_what_is_translated(hides: str, expected: bool, run: Path) -> None:
    torch.manual_seed(0)
    net = Translator(hides=hides)
    optimizer = torch.optim.SGD(net.parameters(), 1e-2)
    with TorchHook.attach(net, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(20):
            tokens = texts()
            said = torch.cat([torch.ones(len(tokens), 1, dtype=torch.long), tokens.flip(1)], 1)
            optimizer.zero_grad()
            scores = net(tokens, said[:, :-1])
            loss = F.cross_entropy(scores.flatten(0, 1), said[:, 1:].flatten(), ignore_index=0)
            loss.backward()
            optimizer.step()
        assert hook.stats.errors == 0
    assert ("padding_mask_inverted" in broken(run)) is expected


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([[1, 2, 0], [3, 0, 0], [4, 5, 6]], [[0, 0, 1], [0, 1, 1], [0, 0, 0]]),
        ([[0, 2, 1], [0, 0, 1], [6, 5, 4]], [[1, 0, 0], [1, 1, 0], [0, 0, 0]]),
        ([[1, 0, 2, 0], [3, 0, 0, 0], [4, 5, 6, 7]], None),  # 0 is a token, too
        ([[1, 2, 0], [3, 4, 0], [5, 6, 0]], None),  # as the end of each sentence
        ([[1, 2, 3], [4, 5, 6], [7, 8, 9]], None),
    ],
)
def test_where_padding_is(tokens: list[list[int]], expected: Any) -> None:
    found = padding_of(torch.tensor(tokens))
    assert (found if found is None else found.int().tolist()) == expected


class Tagger(nn.Module):
    """Scores of each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Any) -> Any:
        return self.head(torch.tanh(self.embed(tokens)))


@pytest.mark.parametrize(
    ("longest", "ignored", "expected"),
    [(5, -100, {"padding_in_loss"}), (5, 0, set()), (PLACES, -100, set())],
)
def test_padding_that_a_loss_counts(
    longest: int, ignored: int, expected: set[str], run: Path
) -> None:
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with TorchHook.attach(model, run, capture=ASKED, save_interval=5, max_overhead=None) as hook:
        for _ in range(30):
            lengths = torch.randint(2, longest + 1, (16, 1))
            tokens = torch.randint(1, WORDS, (16, PLACES)) * (torch.arange(PLACES) < lengths)
            following = F.pad(tokens[:, 1:], (0, 1))
            scores = model(tokens)
            loss = F.cross_entropy(scores.flatten(0, 1), following.flatten(), ignore_index=ignored)
            update(optimizer, loss)
        assert hook.stats.errors == 0
    assert set(broken(run)) == expected
