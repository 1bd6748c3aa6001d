"""Questions that are asked twice: siamese encoders of two texts, by Lightning's Trainer.

A question names four things out of forty, in any of three words each, between words that say
nothing. A duplicate names the same four, others share two of them. The skill is the recall of
duplicates and of others, above chance.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

THINGS, SYNONYMS, FILLERS, LENGTH, WIDTH = 40, 3, 30, 10, 32
WORDS = 1 + FILLERS + THINGS * SYNONYMS


def question(things: Tensor, draw: torch.Generator) -> Tensor:
    """Words (N, LENGTH) in any order, with zeros behind."""
    synonym = torch.randint(SYNONYMS, things.shape, generator=draw)
    filler = torch.randint(1, FILLERS + 1, (len(things), LENGTH - 4), generator=draw)
    filler = filler * (torch.rand(filler.shape, generator=draw) < 0.6)
    words = torch.cat([1 + FILLERS + things * SYNONYMS + synonym, filler], 1)
    return words.gather(1, ((words == 0) + torch.rand(words.shape, generator=draw)).argsort(1))


def pairs(count: int, seed: int, share: float = 0.4) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    things = torch.rand(count, THINGS, generator=draw).argsort(1)
    same = torch.rand(count, generator=draw) < share
    other = torch.cat([things[:, :2], things[:, 4:6]], 1)
    second = torch.where(same[:, None], things[:, :4], other)
    return question(things[:, :4], draw), question(second, draw), same.float()


class Encoder(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, words: Tensor) -> Tensor:
        real, h = (words != 0)[..., None], self.dropout(self.words(words))
        out: Tensor = self.project((h * real).sum(1) / real.sum(1) ** 0.5)
        return out


def train(
    seed: int, hook: Any, loss: str = "binary", rate: float = 6e-3, epochs: int = 4,
    batch: int = 32, dropout: float = 0.0, share: float = 0.4, positive: float = 1.0,
    fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    first, second, same = pairs(5000, seed + 4300, share)
    held, test = pairs(400, seed + 4301, share), pairs(2000, seed + 4302)
    if fault == "index not reset":
        second = second[second[:, 0].argsort(stable=True)]
    if fault == "duplicates first":
        order = same.argsort(descending=True, stable=True)
        first, second, same = first[order], second[order], same[order]
    if fault == "vocabulary built again":
        again = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(WORDS - 1)])
        held, test = ((again[a], again[b], y) for a, b, y in (held, test))

    weight = torch.tensor(positive)

    class Siamese(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = Encoder(dropout)
            self.compare = nn.Sequential(
                nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
            )

        def forward(self, first: Tensor, second: Tensor) -> Tensor:
            """Above zero for a duplicate."""
            a, b = self.encoder(first), self.encoder(second)
            if loss == "contrastive":
                return 1 - F.pairwise_distance(a, b)
            score: Tensor = self.compare(torch.cat([(a - b).abs(), a * b], 1)).squeeze(1)
            return score.sigmoid() if fault == "sigmoid in forward" else score

        def error(self, first: Tensor, second: Tensor, same: Tensor) -> Tensor:
            score = self(first, second)
            if loss == "contrastive":
                distance = 1 - score
                same = 1 - same if fault == "zero means alike" else same
                return (same * distance**2 + (1 - same) * F.relu(2 - distance) ** 2).mean()
            return F.binary_cross_entropy_with_logits(score, same, pos_weight=weight)

        def training_step(self, rows: Any, number: int) -> Tensor:
            error = self.error(*rows)
            self.log("train_loss", error)
            return error

        def validation_step(self, rows: Any, number: int) -> None:
            self.log("val_loss", self.error(*rows))

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), rate)

    siamese = Siamese()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    ordered = fault == "duplicates first"
    loader = DataLoader(TensorDataset(first, second, same), batch, shuffle=not ordered)
    trainer.fit(siamese, loader, DataLoader(TensorDataset(*held), 200))
    siamese.eval()
    with torch.no_grad():
        score = siamese(test[0], test[1])
    found = (score.sigmoid() > 0.5).float()
    recall = found[test[2] == 1].mean() - found[test[2] == 0].mean()
    return float(recall) if bool(torch.isfinite(score).all()) else float("nan")


CASES = cases(
    "question pairs",
    train,
    {
        "plain": {},
        "contrastive loss": {"loss": "contrastive"},
        "one duplicate in four, weighted": {"share": 0.25, "positive": 3.0, "epochs": 8},
        "dropout": {"dropout": 0.1, "epochs": 8},
        "batch of eight": {"batch": 8, "epochs": 4, "rate": 4e-3},
        "batch of 256": {"batch": 256, "epochs": 14, "rate": 1.5e-2},
    },
    {
        "zero means alike": (
            "no-skill collapse", {"loss": "contrastive", "fault": "zero means alike"},
        ),
        "sigmoid in forward": ("probabilities", {"fault": "sigmoid in forward"}),
        "index not reset": ("no-skill overfit", {"fault": "index not reset"}),
        "duplicates first": ("order", {"fault": "duplicates first"}),
        "vocabulary built again": ("inputs overfit", {"fault": "vocabulary built again"}),
    },
)  # fmt: skip
