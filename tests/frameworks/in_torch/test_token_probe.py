"""On which tokens predictions may depend, and on which they must not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.torch import TorchHook
from torch import nn

from tests.frameworks.in_torch.runs import update
from tests.frameworks.in_torch.test_contracts import ASKED, broken

SAMPLES, PLACES, WORDS, WIDTH = 6, 8, 11, 16
Loss = Callable[[Any, Any], Any]


class Transformer(nn.Module):
    """Scores of each token's successor, (N, T, words), or of the classes of a text, (N, 4)."""

    def __init__(self, *, causal: bool, batch_first: bool = True, pooled: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, 0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 4 if pooled else WORDS)
        self.causal, self.pooled = causal, pooled

    def forward(self, tokens: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        states = self.encoder(self.embed(tokens), mask if self.causal else None)
        return self.head(states.mean(1) if self.pooled else states)


class Recurrent(nn.Module):
    def __init__(self, *, both: bool = False, time_first: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.cell = nn.GRU(WIDTH, WIDTH, batch_first=not time_first, bidirectional=both)
        self.head = nn.Linear(WIDTH * (1 + both), WORDS)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.cell(self.embed(tokens))[0])


class Translator(nn.Module):
    """Encoder and decoder; the encoder reads all, the decoder what it has written."""

    def __init__(self, *, masked: bool) -> None:
        super().__init__()
        self.source, self.embed = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.core = nn.Transformer(WIDTH, 2, 1, 1, 32, 0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)
        self.masked = masked

    def forward(self, source: Any, written: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(written.shape[1])
        mask = mask if self.masked else None
        return self.head(self.core(self.source(source), self.embed(written), tgt_mask=mask))


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = Transformer(causal=False, pooled=True)

    def forward(self, documents: Any, queries: Any) -> Any:
        return self.tower(documents), self.tower(queries)


class Dialogue(nn.Module):
    """Scores of each text of a dialogue by the texts before it; two of them follow each other."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.texts = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, tokens: Any) -> Any:
        texts = self.embed(tokens).mean(1)
        return self.head(self.texts(texts.view(-1, 2, WIDTH).flip(1))[0].flatten(0, 1))


class Coded(nn.Module):
    """Says a text again by a code of it; of the text itself it may see damaged tokens."""

    def __init__(self, *, damaged: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.GRU(2 * WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)
        self.damaged = damaged

    def forward(self, tokens: Any) -> Any:
        code = self.encoder(self.embed(tokens))[1][0][:, None].expand(-1, PLACES - 1, -1)
        seen = torch.zeros_like(code)
        if self.damaged:
            seen = self.embed(tokens.masked_fill(torch.rand(tokens.shape) < 0.3, 0)[:, :-1])
        return self.head(self.decoder(torch.cat([code, seen], 2))[0])


def said_again(model: Any, tokens: Any) -> Any:
    return F.cross_entropy(model(tokens).flatten(0, 1), tokens[:, 1:].flatten())


def next_token(model: Any, tokens: Any) -> Any:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def shifted_inside(model: Any, tokens: Any) -> Any:
    return F.cross_entropy(model(tokens)[:, :-1].mT, tokens[:, 1:])


def time_first(model: Any, tokens: Any) -> Any:
    turned = tokens.T.contiguous()
    return F.cross_entropy(model(turned[:-1]).flatten(0, 1), turned[1:].flatten())


def same_token(model: Any, tokens: Any) -> Any:
    return F.cross_entropy(model(tokens).flatten(0, 1), tokens.clone().flatten())


def masked_token(model: Any, tokens: Any) -> Any:
    hidden = torch.rand(tokens.shape) < 0.3
    labels = torch.where(hidden, tokens, -100)
    return F.cross_entropy(model(tokens.masked_fill(hidden, 0)).flatten(0, 1), labels.flatten())


def tag(model: Any, tokens: Any) -> Any:
    return F.cross_entropy(model(tokens).flatten(0, 1), (tokens.flip(1) % 5).flatten())


def text_class(model: Any, tokens: Any) -> Any:
    return F.cross_entropy(model(tokens), tokens[:, 0] % 4)


def in_batch_negatives(model: Any, tokens: Any) -> Any:
    documents, queries = model(tokens, tokens.flip(1))
    return F.cross_entropy(queries @ documents.T, torch.arange(SAMPLES))


def translated(model: Any, tokens: Any) -> Any:
    written = (tokens + 3) % WORDS
    return F.cross_entropy(model(tokens, written[:, :-1]).flatten(0, 1), written[:, 1:].flatten())


def copied(model: Any, tokens: Any) -> Any:
    return F.cross_entropy(model(tokens, tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def shifted_twice(model: Any, tokens: Any) -> Any:
    """The script shifts, and so does what computes the loss."""
    scores, labels = model(tokens[:, :-1]), tokens[:, 1:]
    return F.cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def two_ahead_beside(model: Any, tokens: Any) -> Any:
    """A second head for the token after the next one."""
    return by_hand(1)(model, tokens) + by_hand(2)(model, tokens)


def by_hand(ahead: int) -> Loss:
    """The negative log-likelihood of tokens so far ahead, picked by ``gather``."""

    def loss(model: Any, tokens: Any) -> Any:
        scores = model(tokens)[:, : PLACES - ahead].log_softmax(-1)
        return -scores.gather(2, tokens[:, ahead:, None]).squeeze(2).mean()

    return loss


@pytest.mark.parametrize(
    ("model", "loss", "contracts"),
    [
        (lambda: Transformer(causal=True), next_token, set()),
        (lambda: Transformer(causal=True), shifted_inside, set()),
        (lambda: Transformer(causal=False), next_token, {"sees_future_tokens"}),
        (lambda: Transformer(causal=False), shifted_inside, {"sees_future_tokens"}),
        (
            lambda: Transformer(causal=False, batch_first=False),
            next_token,
            {"samples_mixed"},
        ),
        (lambda: Transformer(causal=True), same_token, {"targets_not_shifted"}),
        (lambda: Transformer(causal=True), by_hand(1), set()),
        (lambda: Transformer(causal=False), by_hand(1), {"sees_future_tokens"}),
        (lambda: Transformer(causal=True), by_hand(0), {"targets_not_shifted"}),
        (lambda: Transformer(causal=True), by_hand(2), {"targets_shifted_twice"}),
        (lambda: Transformer(causal=True), shifted_twice, {"targets_shifted_twice"}),
        (lambda: Transformer(causal=True), two_ahead_beside, set()),
        (lambda: Transformer(causal=False), masked_token, set()),
        (lambda: Transformer(causal=False), tag, set()),
        (lambda: Transformer(causal=False, pooled=True), text_class, set()),
        (
            lambda: Transformer(causal=False, pooled=True, batch_first=False),
            text_class,
            {"samples_mixed"},
        ),
        (TwoTowers, in_batch_negatives, set()),
        (Dialogue, text_class, set()),
        (lambda: Coded(damaged=False), said_again, set()),
        (lambda: Coded(damaged=True), said_again, set()),
        (Recurrent, next_token, set()),
        (lambda: Recurrent(time_first=True), time_first, set()),
        (lambda: Recurrent(both=True), next_token, {"sees_future_tokens"}),
        (lambda: Recurrent(both=True, time_first=True), time_first, {"sees_future_tokens"}),
        (lambda: Recurrent(time_first=True), next_token, {"samples_mixed"}),
        (lambda: Translator(masked=True), translated, set()),
        (lambda: Translator(masked=False), translated, {"sees_future_tokens"}),
        (lambda: Translator(masked=True), copied, set()),
    ],
)
def test_what_a_prediction_depends_on(
    model: Callable[[], Any], loss: Loss, contracts: set[str], run: Path
) -> None:
    torch.manual_seed(0)
    trained = model()
    optimizer = torch.optim.SGD(trained.parameters(), 1e-2)
    with TorchHook.attach(trained, run, capture=ASKED, save_interval=1, max_overhead=None) as hook:
        for _ in range(3):
            update(optimizer, loss(trained, torch.randint(1, WORDS, (SAMPLES, PLACES))))
        assert hook.stats.errors == 0
    assert broken(run).keys() - {"labels_equal_inputs"} == contracts


def test_the_gradients_of_a_training_stay_as_they_are(run: Path) -> None:
    torch.manual_seed(0)
    model, tokens = Transformer(causal=True), torch.randint(1, WORDS, (SAMPLES, PLACES))
    next_token(model, tokens).backward()
    alone = [each.grad for each in model.parameters()]
    model.zero_grad()
    with TorchHook.attach(model, run, capture=ASKED, save_interval=1, max_overhead=None):
        next_token(model, tokens).backward()
        assert all(map(torch.equal, alone, (each.grad for each in model.parameters())))
