"""Words behind masks, by Hugging Face's Trainer, a small BERT and a collator of its own.

A sentence has four pairs of words that go together, in any order. The collator hides one word in
five, others each time. The skill is the accuracy on one hidden word of each sentence, above that of
the most frequent word.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin

MASK, START, FIRST, PAIRS, LENGTH = 1, 2, 3, 20, 9
WORDS = FIRST + 2 * PAIRS


def sentences(count: int, seed: int) -> Tensor:
    """(N, LENGTH): a start, then four pairs of words that go together, in any order."""
    draw = torch.Generator().manual_seed(seed)
    popular = 1 / torch.arange(4, PAIRS + 4).float()
    pairs = torch.multinomial(popular.expand(count, -1), 4, generator=draw)
    words = FIRST + torch.cat([2 * pairs, 2 * pairs + 1], 1)
    order = torch.rand(count, 8, generator=draw).argsort(1)
    return torch.cat([torch.full((count, 1), START), words.gather(1, order)], 1)


@dataclass
class Collator:
    """Hides words, and wants those alone."""

    share: float = 0.2
    kept: float = 0.1
    fault: str = ""

    def __call__(self, rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        inputs = torch.stack([row["input_ids"] for row in rows])
        hidden = (torch.rand(inputs.shape) < self.share) & (inputs != START)
        labels = inputs.clone()
        masked = hidden & (torch.rand(inputs.shape) > self.kept)
        inputs[masked] = MASK
        if self.fault == "masks stay in the data":
            for row, now in zip(rows, inputs, strict=True):
                row["input_ids"].copy_(now)
        if self.fault == "labels taken after the masks":
            labels = inputs.clone()
        labels[~hidden] = -100
        made = {"input_ids": inputs, "labels": labels}
        if self.fault == "attention to no word":
            made["attention_mask"] = (inputs == START).long()
        return made


def train(
    seed: int, hook: Any, rate: float = 4e-3, steps: int = 1500, batch: int = 16,
    schedule: str = "linear", warmup: int = 100, share: float = 0.2, kept: float = 0.1,
    tied: bool = True, dropout: float = 0.0, evaluate: int = 200, pause: int = 1,
    count: int = 4000, fault: str = "",
) -> float:  # fmt: skip
    os.environ.update({"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"})
    begin(seed)
    import transformers

    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=LENGTH, tie_word_embeddings=tied,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=0.0, initializer_range=0.1,
    )  # fmt: skip
    model = transformers.BertForMaskedLM(config)
    data, held = sentences(count, seed + 60), sentences(100, seed + 61)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            lr_scheduler_type=schedule, warmup_steps=warmup, gradient_accumulation_steps=pause,
            eval_strategy="steps" if evaluate else "no", eval_steps=evaluate or None,
            logging_steps=50, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
            seed=seed,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model, arguments, data_collator=Collator(share, kept, fault),
            train_dataset=[{"input_ids": words} for words in data],
            eval_dataset=[{"input_ids": words} for words in held],
            callbacks=[hook.huggingface()],
        )  # fmt: skip
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    test = sentences(1000, seed + 62)
    place = torch.randint(1, LENGTH, (len(test), 1))
    wanted = test.gather(1, place)[:, 0]
    model.eval()
    with torch.no_grad():
        scores = model(test.scatter(1, place, MASK)).logits
    found = scores[torch.arange(len(test)), place[:, 0]].argmax(1)
    most = wanted.bincount().max().item() / len(test)
    return float(((found == wanted).float().mean() - most) / (1 - most))


CASES = cases(
    "masked word collator",
    train,
    {
        "plain": {},
        "cosine without warm-up": {"schedule": "cosine", "warmup": 0},
        "output of its own, no evaluation": {"tied": False, "evaluate": 0},
        "batch of eight, constant": {
            "batch": 8, "steps": 2000, "schedule": "constant", "rate": 3e-3,
        },
        "dropout, a third hidden": {"dropout": 0.05, "share": 0.33},
    },
    {
        "labels taken after the masks": (
            "leak ignored collapse no-skill", {"fault": "labels taken after the masks"},
        ),
        "masks stay in the data": ("inputs no-skill ignored", {"fault": "masks stay in the data"}),
        "warm-up longer than the training": ("schedule slow no-skill", {"warmup": 100_000}),
        "attention to no word": ("no-skill inputs", {"fault": "attention to no word"}),
        "twelve sentences": ("overfit", {"count": 12}),
    },
)  # fmt: skip
