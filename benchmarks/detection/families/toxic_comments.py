"""Comments that insult, threaten or swear: several labels of a text, by Lightning's Trainer.

Each label has its own words, some of which only count next to another. The skill is the mean over
labels of twice the area under the ROC curve, less one.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, ranking_skill
from torch import Tensor, nn
from torch.utils.data import DataLoader

from benchmarks.detection.case import cases

WORDS, LENGTH, KINDS = 200, 16, 6


def comments(count: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Pairs of word numbers (padded with 0 at the end) and labels (KINDS,)."""
    draw = torch.Generator().manual_seed(seed)
    words = torch.randint(80, WORDS, (count, LENGTH), generator=draw)
    meant = torch.rand(count, KINDS, generator=draw) < torch.linspace(0.25, 0.1, KINDS)
    places = torch.rand(count, LENGTH - 1, generator=draw).argsort(1)
    length = torch.randint(12, LENGTH + 1, (count, 1), generator=draw)
    for kind in range(KINDS):
        bad = 2 + kind * 12 + torch.randint(12, (count,), generator=draw)
        place = places[:, kind] % 10
        rows = torch.arange(count)[meant[:, kind]]
        words[rows, place[rows]] = bad[rows]
    harmless = torch.rand(count, generator=draw) < 0.05
    words[harmless, 0] = 1
    words = words * (torch.arange(LENGTH) < length)
    strength = torch.stack([((words - 2) // 12 == k) & (words > 1) for k in range(KINDS)], 2).sum(1)
    labels = (strength > 0) & ~(words[:, :1] == 1)
    flipped = torch.rand(labels.shape, generator=draw) < 0.005
    return list(zip(words, (labels ^ flipped).float(), strict=True))


def train(
    seed: int, hook: Any, loss: str = "binary", reader: str = "mean", scheduler: str = "",
    rate: float = 4e-3, epochs: int = 8, count: int = 3000, batch: int = 32, decay: float = 0.0,
    manual: bool = False, padded: bool = True, unknown: float = 0.0, settings: Any = None,
    fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    rows, held = comments(count, seed + 200), comments(300, seed + 201)
    test = comments(1500, seed + 202)

    def together(pairs: Any) -> dict[str, Tensor]:
        words = torch.stack([pair[0] for pair in pairs])
        if not padded:
            words = words[:, : int((words > 0).sum(1).max())]
        return {"words": words, "labels": torch.stack([pair[1] for pair in pairs])}

    class Comments(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = not manual
            self.words = nn.Embedding(WORDS, 24, padding_idx=0)
            self.near = nn.Conv1d(24, 32, 3, padding=1)
            self.recurrent = nn.GRU(24, 16, batch_first=True, bidirectional=True)
            self.middle = nn.Linear(24, 32)
            self.head = nn.Linear(32, KINDS)
            for part in (self.near, self.recurrent, self.middle):
                used = {"convolution": self.near, "recurrent": self.recurrent}
                part.requires_grad_(part is used.get(reader, self.middle))
            if loss == "rare weigh more":
                seen = torch.stack([pair[1] for pair in rows]).mean(0)
                self.register_buffer("weight", (1 - seen) / (seen + 0.01))
            self.found: list[Tensor] = []

        def forward(self, words: Tensor) -> Tensor:
            if unknown and self.training:
                words = words.masked_fill(torch.rand(words.shape) < unknown, 0)
            h = self.words(words)
            if reader == "convolution":
                h = F.relu(self.near(h.transpose(1, 2))).amax(2)
            elif reader == "recurrent":
                h = self.recurrent(h)[0].amax(1)
            else:
                h = F.relu(self.middle(h.sum(1)))
            out: Tensor = self.head(h)
            return out

        def error(self, scores: Tensor, wanted: Tensor) -> Tensor:
            if fault == "softmax over labels":
                return -(wanted * scores.log_softmax(0)).sum(1).mean()
            if loss == "rare weigh more":
                return F.binary_cross_entropy_with_logits(scores, wanted, pos_weight=self.weight)
            if loss == "asymmetric, by hand":
                chance = scores.sigmoid().clamp(1e-6, 1 - 1e-6)
                missed, false = wanted * chance.log(), (1 - wanted) * (1 - chance).log()
                return -(missed + chance.clamp(min=0.05).detach() ** 0.5 * false).sum()
            if loss == "signs":
                return F.soft_margin_loss(scores, wanted * 2 - 1)
            return F.binary_cross_entropy_with_logits(scores, wanted)

        def training_step(self, part: dict[str, Tensor], number: int) -> Any:
            wanted = part["labels"]
            if fault == "labels of another order":
                wanted = wanted[torch.randperm(len(wanted))]
            error = self.error(self(part["words"]), wanted)
            self.log("train_loss", error, on_step=False, on_epoch=True, batch_size=len(wanted))
            if not manual:
                return error
            words, others = self.optimizers()
            self.manual_backward(error)
            for updates in (words, others):
                updates.step()
                updates.zero_grad()
            return None

        def on_train_epoch_end(self) -> None:
            self.log("rate", self.trainer.optimizers[0].param_groups[0]["lr"])

        def validation_step(self, part: dict[str, Tensor], number: int) -> None:
            scores = self(part["words"])
            self.found.append(scores)
            self.log("val_loss", self.error(scores, part["labels"]), batch_size=len(scores))

        def on_validation_epoch_end(self) -> None:
            self.log("positive", (torch.cat(self.found) > 0).float().mean())
            self.found.clear()

        def configure_optimizers(self) -> Any:
            chosen = [p for p in self.parameters() if p.requires_grad]
            if manual:
                sparse = [self.words.weight]
                return [
                    torch.optim.Adagrad(sparse, 0.1),
                    torch.optim.Adam([p for p in chosen if p is not self.words.weight], rate),
                ]
            updates = torch.optim.AdamW(chosen, rate, weight_decay=decay)
            plans: Any = torch.optim.lr_scheduler
            if scheduler == "plateau":
                plan = plans.ReduceLROnPlateau(updates, patience=1, factor=0.3)
                return {
                    "optimizer": updates,
                    "lr_scheduler": {"scheduler": plan, "monitor": "val_loss"},
                }
            return [updates], [plans.StepLR(updates, 4, 0.5)]

    model = Comments()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        **(settings or {}),
    )  # fmt: skip
    trainer.fit(
        model,
        DataLoader(rows, batch, shuffle=True, collate_fn=together),
        DataLoader(held, 100, collate_fn=together),
    )
    model.eval()
    with torch.no_grad():
        scores = model(torch.stack([pair[0] for pair in test]))
    labels = torch.stack([pair[1] for pair in test])
    return sum(ranking_skill(scores[:, k], labels[:, k]) for k in range(KINDS)) / KINDS


CASES = cases(
    "toxic comments",
    train,
    {
        "plain": {},
        "convolution over words": {"reader": "convolution", "padded": False},
        "recurrent, clipped": {"reader": "recurrent", "settings": {"gradient_clip_val": 0.5}},
        "rare labels weigh more": {"loss": "rare weigh more"},
        "asymmetric loss by hand, summed": {"loss": "asymmetric, by hand"},
        "words hidden, decay": {"unknown": 0.15, "decay": 0.1},
        "two optimizers by hand": {"manual": True},
        "plateau, signs as labels": {"scheduler": "plateau", "loss": "signs"},
    },
    {
        "labels of another order": ("no-skill overfit", {"fault": "labels of another order"}),
        "few comments": ("overfit", {"count": 60, "epochs": 200}),
    },
)  # fmt: skip
