"""How alike two sentences are, from 0 to 5, by the Trainer of transformers with its callback.

A small BERT, new from its config, reads each sentence, and the cosine of the two means says it. The
second of two made-up sentences keeps to the subject of the first with a share of its words. The
skill is the correlation with the scores of other pairs.
"""

from __future__ import annotations

import math
import tempfile
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

SUBJECTS, EACH, LENGTH = 8, 15, 10
WORDS = SUBJECTS * EACH


def pairs(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Words of the first and second sentence (count, LENGTH), padded with 0, and scores."""
    draw = torch.Generator().manual_seed(seed)
    subject = torch.randint(SUBJECTS, (count, 1), generator=draw)
    other = (subject + torch.randint(1, SUBJECTS, (count, 1), generator=draw)) % SUBJECTS
    share = torch.rand(count, 1, generator=draw)
    kept = torch.rand(count, LENGTH, generator=draw).argsort(1) < (share * LENGTH).round()
    word = torch.randint(EACH, (2, count, LENGTH), generator=draw) + 1
    first, second = word[0] + EACH * subject, word[1] + EACH * torch.where(kept, subject, other)
    written = torch.arange(LENGTH) < torch.randint(6, LENGTH + 1, (count, 1), generator=draw)
    score = 5 * share + 0.3 * torch.randn(count, 1, generator=draw)
    return first * written, second, score[:, 0].clamp(0, 5)


class Rows(torch.utils.data.Dataset):
    def __init__(self, of: tuple[Tensor, Tensor, Tensor], column: bool) -> None:
        self.first, self.second, self.score = of
        self.column = column

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        score = self.score[row : row + 1] if self.column else self.score[row]
        return {"first": self.first[row], "second": self.second[row], "labels": score}


class Twins(nn.Module):
    """One encoder for both sentences."""

    def __init__(self, encoder: nn.Module, loss: str) -> None:
        super().__init__()
        self.encoder, self.loss = encoder, loss

    def meaning(self, words: Tensor) -> Tensor:
        real = (words != 0).long()
        states = self.encoder(words, attention_mask=real).last_hidden_state
        return (states * real[..., None]).sum(1) / real.sum(1, keepdim=True)

    def forward(self, first: Tensor, second: Tensor, labels: Tensor) -> dict[str, Tensor]:
        found = F.cosine_similarity(self.meaning(first), self.meaning(second))
        if self.loss == "order":  # each pair that is less alike has the lesser cosine
            less = labels[:, None] < labels
            wrong = 20 * (found[:, None] - found)[less]
            loss = torch.cat([wrong.new_zeros(1), wrong]).logsumexp(0)
        else:
            loss = F.mse_loss(found, labels)
        return {"loss": loss, "scores": found}


def train(
    seed: int, hook: Any, rate: float = 1e-3, steps: int = 350, batch: int = 32,
    accumulate: int = 1, optimizer: str = "adamw_torch", dropout: float = 0.1,
    loss: str = "squares", bfloat16: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    from transformers import BertConfig, BertModel, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging

    logging.set_verbosity_error()
    rows, held, test = (pairs(n, seed + 8400 + n) for n in (3000, 200, 800))
    unit = 1 if fault == "scores up to five" else 5
    rows, held = ((a, b, score / unit) for a, b, score in (rows, held))
    if fault == "second sentences of other pairs":
        rows = (rows[0], rows[1][torch.randperm(len(rows[1]))], rows[2])
    if fault == "another tokenizer":
        again = torch.cat([torch.zeros(1, dtype=torch.long), torch.randperm(WORDS) + 1])
        held, test = ((again[a], again[b], score) for a, b, score in (held, test))
    config = BertConfig(
        vocab_size=WORDS + 1, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=LENGTH, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=0.0, initializer_range=0.1,
    )  # fmt: skip
    model = Twins(BertModel(config, add_pooling_layer=False), loss)
    with tempfile.TemporaryDirectory() as folder:
        rises = 60 if optimizer == "adafactor" else 0
        how = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            gradient_accumulation_steps=accumulate, optim=optimizer, report_to=[], seed=seed,
            lr_scheduler_type="constant_with_warmup" if rises else "linear", warmup_steps=rises,
            eval_strategy="steps", eval_steps=70,
            save_strategy="no", disable_tqdm=True, use_cpu=True, bf16=bfloat16, logging_steps=50,
        )  # fmt: skip
        column = fault == "scores as a column"
        trainer = Trainer(
            model, how, train_dataset=Rows(rows, column), eval_dataset=Rows(held, column),
            callbacks=[hook.huggingface()],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.eval()
    with torch.no_grad():
        found = model(*test)["scores"]
    if not bool(torch.isfinite(found).all()):
        return math.nan
    return float(torch.corrcoef(torch.stack([found, test[2]]))[0, 1].nan_to_num())


CASES = cases(
    "sentence similarity",
    train,
    {
        "plain": {},
        "four small batches for one": {"batch": 8, "accumulate": 4},
        "bfloat16": {"bfloat16": True},
        "loss of the order": {"loss": "order"},
        "Adafactor": {"optimizer": "adafactor", "rate": 3e-3},
        "dropout of 0.3": {"dropout": 0.3, "steps": 450},
    },
    {
        "scores up to five": ("range collapse no-skill", {"fault": "scores up to five"}),
        "second sentences of other pairs": (
            "no-skill collapse",
            {"fault": "second sentences of other pairs"},
        ),
        "scores as a column": ("broadcast no-skill collapse", {"fault": "scores as a column"}),
        "another tokenizer": ("inputs overfit", {"fault": "another tokenizer"}),
        "rate as for fine-tuning": ("slow no-skill", {"rate": 2e-5}),
    },
)
