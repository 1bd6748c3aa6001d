"""A small BERT sorts token sequences, by the Trainer of transformers with its callback."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor

from benchmarks.detection.case import cases

WORDS, LENGTH, KINDS = 50, 12, 3


def sentences(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The kind is that of which words there are most."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count,), generator=draw)
    words = torch.randint(5, WORDS, (count, LENGTH), generator=draw)
    own = 5 + 15 * kind[:, None] + torch.randint(15, (count, LENGTH), generator=draw)
    return torch.where(torch.rand(count, LENGTH, generator=draw) < 0.4, own, words), kind


class Rows(torch.utils.data.Dataset):
    def __init__(self, words: Tensor, kinds: Tensor) -> None:
        self.words, self.kinds = words, kinds

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"input_ids": self.words[row], "labels": self.kinds[row]}


def train(
    seed: int,
    hook: Any,
    rate: float = 1e-3,
    steps: int = 400,
    batch: int = 16,
    accumulate: int = 1,
    scheduler: str = "linear",
    warmup: int = 0,
    fault: str = "",
    noise: float = 0.0,
    dropout: float = 0.1,
    smoothing: float = 0.0,
) -> float:
    begin(seed)
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    from transformers.utils import logging

    logging.set_verbosity_error()
    (words, kinds), (held, held_kinds) = sentences(3000, seed + 150), sentences(300, seed + 151)
    if fault == "memorises":
        words, kinds = words[:30], kinds[:30]
    if fault == "shuffled":
        kinds = kinds[torch.randperm(len(kinds))]
    if fault == "words all the same":
        words = torch.full_like(words, 7)
    if noise:
        wrong = torch.rand(len(kinds)) < noise
        kinds = torch.where(wrong, torch.randint(KINDS, kinds.shape), kinds)
    config = BertConfig(
        vocab_size=WORDS + 5, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=LENGTH + 2, num_labels=KINDS,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model, other = (BertForSequenceClassification(config) for _ in range(2))
    optimizer = torch.optim.AdamW(other.parameters(), rate) if fault == "other model" else None
    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            gradient_accumulation_steps=accumulate, lr_scheduler_type=scheduler,
            warmup_steps=warmup, eval_strategy="steps", eval_steps=100, report_to=[],
            save_strategy="no", disable_tqdm=True, seed=seed, use_cpu=True, logging_steps=1000,
            per_device_eval_batch_size=100, label_smoothing_factor=smoothing,
            max_grad_norm=0.0 if rate > 0.1 else 1.0, dataloader_num_workers=0,
        )  # fmt: skip
        trainer = Trainer(
            model, how, train_dataset=Rows(words, kinds), eval_dataset=Rows(held, held_kinds),
            callbacks=[hook.huggingface()], optimizers=(optimizer, None),
        )  # fmt: skip
        from transformers.trainer_callback import PrinterCallback

        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.eval()
    with torch.no_grad():
        return class_skill(model(held).logits, held_kinds)


CASES = cases(
    "hugging face",
    train,
    {
        "plain": {},
        "warm-up and cosine": {"warmup": 40, "scheduler": "cosine"},
        "accumulation": {"batch": 4, "accumulate": 4},
        "labels with noise": {"noise": 0.1},
        "label smoothing": {"smoothing": 0.1},
        "batch of two": {"batch": 2, "steps": 1500, "rate": 3e-4},
    },
    {
        "labels shuffled": ("no-skill", {"fault": "shuffled"}),
        "words all the same": ("inputs no-skill", {"fault": "words all the same"}),
        "optimizer of another model": ("unbound slow", {"fault": "other model"}),
        "memorises 30": ("overfit", {"fault": "memorises"}),
        "rate x 1000": ("fast no-skill", {"rate": 1.0}),
        "rate / 1000": ("slow no-skill", {"rate": 1e-6}),
    },
    seeds=(1, 1),
)
