"""Which team answers a customer's ticket: a small DistilBERT of its own, by Hugging Face's Trainer.

A ticket has words of its topic, words that all use, and perhaps a "not" that takes the next
topic's word back. Texts are padded in batches. The skill is the accuracy on unseen tickets above
the most frequent team.
"""

from __future__ import annotations

import random
import tempfile
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor

from benchmarks.detection.case import cases

PAD, CLS, SEP, NOT = 0, 1, 2, 3
TEAMS, OWN, COMMON = 4, 15, 40
FIRST_OWN = 4
FIRST_COMMON = FIRST_OWN + TEAMS * OWN
VOCABULARY = FIRST_COMMON + COMMON
LONGEST = 22

Ticket = dict[str, Any]


def tickets(count: int, seed: int, shares: tuple[float, ...] = (1, 1, 1, 1)) -> list[Ticket]:
    draw = random.Random(seed)
    found: list[Ticket] = []
    for _ in range(count):
        team = draw.choices(range(TEAMS), shares)[0]
        said = [[FIRST_OWN + team * OWN + draw.randrange(OWN)] for _ in range(draw.randint(3, 4))]
        for _ in range(draw.randint(0, 2)):
            other = (team + draw.randint(1, TEAMS - 1)) % TEAMS
            said += [[NOT, FIRST_OWN + other * OWN + draw.randrange(OWN)]]
        said += [[FIRST_COMMON + draw.randrange(COMMON)] for _ in range(draw.randint(2, 5))]
        draw.shuffle(said)
        words = [CLS, *(word for part in said for word in part), SEP]
        found.append({"input_ids": words[:LONGEST], "label": team})
    return found


def collate(batch: list[Ticket]) -> dict[str, Tensor]:
    longest = max(len(ticket["input_ids"]) for ticket in batch)
    ids = torch.tensor([t["input_ids"] + [PAD] * (longest - len(t["input_ids"])) for t in batch])
    return {
        "input_ids": ids,
        "attention_mask": (ids != PAD).long(),
        "labels": torch.tensor([ticket["label"] for ticket in batch]),
    }


def accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def train(
    seed: int, hook: Any, rate: float = 2e-3, steps: int = 500, batch: int = 16, count: int = 4000,
    accumulate: int = 1, scheduler: str = "linear", warmup: int = 50, smoothing: float = 0.0,
    optimizer: str = "adamw_torch", decay: float = 0.01, norm: float = 1.0, dropout: float = 0.1,
    evaluated: str = "steps", half: bool = False, spread: float = 0.08, frozen: str = "",
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    from transformers import DistilBertConfig, Trainer, TrainingArguments
    from transformers import DistilBertForSequenceClassification as Classifier
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging

    logging.set_verbosity_error()
    known, held, test = (tickets(n, 13 * seed + n) for n in (count, 301, 1002))
    if fault == "labels in another order":  # texts are shuffled, labels stay where they were
        labels = [ticket["label"] for ticket in known]
        random.Random(seed).shuffle(known)
        known = [{**ticket, "label": label} for ticket, label in zip(known, labels, strict=True)]
    if fault == "one team in training":
        known = tickets(count, 13 * seed + count, (200, 1, 1, 1))
    if fault == "other tokenizer":  # the vocabulary of the test is numbered in another order
        mixed = torch.randperm(VOCABULARY - FIRST_OWN) + FIRST_OWN
        number = [*range(FIRST_OWN), *mixed.tolist()]
        for ticket in held + test:
            ticket["input_ids"] = [number[word] for word in ticket["input_ids"]]
    config = DistilBertConfig(
        vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=64, num_labels=TEAMS,
        max_position_embeddings=LONGEST, dropout=dropout, attention_dropout=dropout,
        seq_classif_dropout=dropout, initializer_range=spread,
    )  # fmt: skip
    model = Classifier(config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not frozen or frozen not in name

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch, bf16=half,
            per_device_eval_batch_size=100, gradient_accumulation_steps=accumulate,
            learning_rate=rate, lr_scheduler_type=scheduler, warmup_steps=warmup, optim=optimizer,
            weight_decay=decay, max_grad_norm=norm, label_smoothing_factor=smoothing,
            eval_strategy=evaluated, eval_steps=100, logging_steps=50, save_strategy="no",
            report_to=[], disable_tqdm=True, use_cpu=True, seed=seed, remove_unused_columns=False,
        )  # fmt: skip
        trainer = Trainer(
            model=model, args=arguments, train_dataset=known, eval_dataset=held,
            data_collator=collate, compute_metrics=accuracy, callbacks=[hook.huggingface()],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.eval()
    inputs = collate(test)
    wanted = inputs.pop("labels")
    with torch.no_grad():
        return class_skill(model(**inputs).logits, wanted)


CASES = cases(
    "support tickets",
    train,
    {
        "plain": {},
        "a third of warm-up, cosine": {"warmup": 200, "scheduler": "cosine"},
        "eight tickets, twice": {"batch": 8, "accumulate": 2},
        "smoothed labels": {"smoothing": 0.1},
        "bfloat16, not evaluated": {"half": True, "evaluated": "no"},
        "embeddings of places frozen": {"frozen": "position_embeddings", "decay": 0.1},
        "Adafactor, not clipped": {"optimizer": "adafactor", "norm": 0.0,
                                   "scheduler": "constant_with_warmup"},
    },
    {
        "labels in another order": ("no-skill overfit", {"fault": "labels in another order"}),
        "other tokenizer": ("inputs worse overfit", {"fault": "other tokenizer"}),
        "one team in training": ("imbalance collapse", {"fault": "one team in training"}),
        "rate for fine-tuning": ("slow no-skill", {"rate": 5e-6}),
        "rate too high": ("fast no-skill collapse worse", {"rate": 0.1}),
        "thirty tickets": ("overfit", {"count": 30, "dropout": 0.0}),
    },
)  # fmt: skip
