"""Names in sentences: a small BERT labels each token, by the Trainer of transformers."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import Tensor

from benchmarks.detection.case import cases
from benchmarks.detection.families.kit import balanced_skill, begin

WORDS, LENGTH, KINDS, IGNORED = 30, 12, 3, -100

Sentence = dict[str, Tensor]


def sentences(count: int, seed: int) -> list[Sentence]:
    """A token's label depends on its own kind and on that of the token before."""
    draw = torch.Generator().manual_seed(seed)
    words = torch.randint(5, WORDS, (count, LENGTH), generator=draw)
    first = torch.cat([torch.zeros(count, 1, dtype=torch.long), words[:, :-1]], 1)
    labels = (words % 2) * (1 + (first % 5 > 2).long())
    lengths = torch.randint(5, LENGTH + 1, (count,), generator=draw)
    return [
        {"input_ids": words[i, :size], "labels": labels[i, :size]}
        for i, size in enumerate(lengths.tolist())
    ]


def padded(parts: list[Sentence], fault: str = "") -> Sentence:
    """The collate function: padded at the end, and what is padded is ignored by the loss."""
    longest = max(len(part["labels"]) for part in parts)
    shape = (len(parts), longest)
    words, labels = torch.zeros(shape, dtype=torch.long), torch.full(shape, IGNORED)
    mask = torch.zeros(shape, dtype=torch.long)
    for row, part in enumerate(parts):
        size = len(part["labels"])
        words[row, :size], labels[row, :size], mask[row, :size] = (
            part["input_ids"],
            part["labels"],
            1,
        )
    if fault == "labels one to the right":
        labels = labels.roll(1, 1)
    if fault == "labels of the next sentence":
        labels = labels.roll(1, 0)
    if fault == "mask inverted":
        mask = 1 - mask
    if fault == "all but padding ignored":
        labels = torch.where(mask > 0, torch.full_like(labels, IGNORED), torch.zeros_like(labels))
    if fault == "words unknown":
        words = torch.ones_like(words)
    return {"input_ids": words, "attention_mask": mask, "labels": labels}


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 500, batch: int = 24,
    accumulate: int = 1, scheduler: str = "linear", warmup: int = 0, dropout: float = 0.0,
    smoothing: float = 0.0, weights: tuple[float, ...] = (), noise: float = 0.0,
    few: int = 3000, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    from transformers import BertConfig, BertForTokenClassification, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging

    logging.set_verbosity_error()
    known, held = sentences(few, seed + 560), sentences(300, seed + 561)
    if noise:
        for part in known:
            wrong = torch.rand(len(part["labels"])) < noise
            other = torch.randint(KINDS, part["labels"].shape)
            part["labels"] = torch.where(wrong, other, part["labels"])
    config = BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=LENGTH, num_labels=KINDS,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForTokenClassification(config)
    if fault == "body frozen":
        model.bert.requires_grad_(False)

    class Own(Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **more: Any) -> Any:
            """Cross-entropy by hand, of the tokens that are not ignored."""
            labels = inputs["labels"]
            output = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
            if fault == "softmax over tokens":
                logs = output.logits.log_softmax(1)
            elif fault == "probabilities":
                logs = output.logits.softmax(2).log_softmax(2)
            else:
                logs = output.logits.log_softmax(2)
            shown = labels != IGNORED
            wanted = torch.where(shown, labels, torch.zeros_like(labels))
            each = -logs.gather(2, wanted[..., None]).squeeze(2)
            if weights:
                each = each * torch.tensor(weights)[wanted]
            loss = (each * shown).sum() / shown.sum()
            return (loss, output) if more.get("return_outputs") else loss

    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            gradient_accumulation_steps=accumulate, lr_scheduler_type=scheduler,
            warmup_steps=warmup, eval_strategy="steps", eval_steps=100, report_to=[],
            save_strategy="no", disable_tqdm=True, seed=seed, use_cpu=True, logging_steps=1000,
            per_device_eval_batch_size=100, label_smoothing_factor=smoothing,
            max_grad_norm=0.0 if rate > 0.1 else 1.0, remove_unused_columns=False,
        )  # fmt: skip
        trainer = (Own if weights or "softmax" in fault or fault == "probabilities" else Trainer)(
            model, how, train_dataset=known, eval_dataset=held,
            data_collator=lambda parts: padded(parts, fault if model.training else ""),
            callbacks=[hook.huggingface()],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.eval()
    rows = padded(held)
    with torch.no_grad():
        scores = model(rows["input_ids"], attention_mask=rows["attention_mask"]).logits
    shown = rows["labels"] != IGNORED
    return balanced_skill(scores[shown], rows["labels"][shown])


CASES = cases(
    "token trainer",
    train,
    {
        "plain": {},
        "loss by hand, classes weighted": {"weights": (0.5, 1.0, 1.5), "steps": 600},
        "warm-up and cosine": {"warmup": 60, "scheduler": "cosine", "rate": 4e-3},
        "accumulation": {"batch": 6, "accumulate": 4},
        "label smoothing": {"smoothing": 0.1},
        "labels with noise": {"noise": 0.1},
        "batch of three": {"batch": 3, "steps": 1200, "rate": 1e-3},
    },
    {
        "labels one to the right": ("no-skill", {"fault": "labels one to the right"}),
        "labels of the next sentence": (
            "no-skill overfit",
            {"fault": "labels of the next sentence"},
        ),
        "mask inverted": ("no-skill mode", {"fault": "mask inverted"}),
        "all but padding ignored": (
            "ignored no-skill collapse not-finite",
            {"fault": "all but padding ignored"},
        ),
        "words unknown": ("inputs no-skill", {"fault": "words unknown"}),
        "softmax over tokens": ("softmax-axis", {"fault": "softmax over tokens"}),
        "probabilities": ("probabilities", {"fault": "probabilities", "rate": 2e-4, "steps": 300}),
        "body frozen": ("no-gradient unbound", {"fault": "body frozen"}),
        "memorises 12": ("overfit", {"few": 12}),
        "rate x 300": ("fast no-skill", {"rate": 1.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
    seeds=(1, 1),
)
