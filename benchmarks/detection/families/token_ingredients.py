"""Labels for the words of a recipe's ingredients, by Hugging Face's Trainer and a small BERT.

"Two cups of ripe tomatoes, finely chopped": amount, unit, name, preparation, or nothing. Some words
are a name or a preparation by what stands around them, and long words come in two pieces, of which
the first alone counts. The skill is the mean recall of the labels, above chance.
"""

from __future__ import annotations

import os
import random
import tempfile
from typing import Any

import torch
from benchmarks.detection.families.kit import balanced_skill, begin
from torch import Tensor

from benchmarks.detection.case import cases

LABELS = ("nothing", "amount", "unit", "name", "preparation")
LENGTH, PIECES, FIRST = 16, 180, 4
"""A row's tokens, and all there are: padding, start, end and comma, then the words' pieces."""
POOLS = {1: range(15), 2: range(15, 27), 3: range(27, 85), 4: range(65, 110), 0: range(110, 118)}
LONG = 50


def pieces(word: int) -> list[int]:
    """Every third word is long: it has a second piece, which others share."""
    return [FIRST + word] + ([FIRST + 118 + word % LONG] if word % 3 == 0 else [])


def line(draw: random.Random) -> list[tuple[int, int]]:
    """Words and labels; the pools of names and preparations overlap."""

    def words(label: int, most: int = 1) -> list[tuple[int, int]]:
        return [(draw.choice(POOLS[label]), label) for _ in range(draw.randint(1, most))]

    made = words(1)
    made += words(2) if draw.random() < 0.7 else []
    made += words(0) if draw.random() < 0.3 else []
    made += words(4) if draw.random() < 0.3 else []
    made += words(3, 2)
    return made + ([(-1, 0), *words(4, 2)] if draw.random() < 0.6 else [])


def rows(count: int, seed: int, fault: str = "") -> list[dict[str, Any]]:
    draw, made = random.Random(seed), []
    for _ in range(count):
        tokens, labels = [1], [-100]
        words = line(draw)
        for word, label in words:
            own = [3] if word < 0 else pieces(word)
            tokens += own
            labels += [label] + [-100] * (len(own) - 1)
        tokens, labels = [*tokens[: LENGTH - 1], 2], [*labels[: LENGTH - 1], -100]
        if fault == "labels of words on pieces":
            short = [label for _, label in words][: len(tokens) - 2]
            labels = [-100, *short, *[-100] * (len(tokens) - 1 - len(short))]
        empty = LENGTH - len(tokens)
        labels += [-100] * empty
        if fault == "words left out of the loss":
            labels = [-100] * len(tokens) + [0] * empty
        mask = [1] * len(tokens) + [0] * empty
        tokens += [0] * empty
        made.append({"input_ids": tokens, "attention_mask": mask, "labels": labels})
    return made


def train(
    seed: int, hook: Any, rate: float = 2e-3, steps: int = 400, batch: int = 16,
    schedule: str = "linear", warmup: int = 0, smoothing: float = 0.0, count: int = 1500,
    weights: tuple[float, ...] = (), layers: int = 1, frozen: bool = False, fault: str = "",
) -> float:  # fmt: skip
    os.environ.update({"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"})
    begin(seed)
    import transformers

    data, held = rows(count, seed + 30, fault), rows(100, seed + 31, fault)
    if fault == "list of labels in a new order":
        order = [3, 0, 4, 1, 2]
        for row in data:
            row["labels"] = [order[k] if k >= 0 else k for k in row["labels"]]
    config = transformers.BertConfig(
        vocab_size=PIECES, hidden_size=32, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=LENGTH, num_labels=len(LABELS),
        hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.0, initializer_range=0.1,
    )  # fmt: skip
    model = transformers.BertForTokenClassification(config)
    if frozen:
        model.bert.embeddings.position_embeddings.requires_grad_(False)

    class Weighted(transformers.Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
            if not weights:
                return super().compute_loss(model, inputs, *rest, **more)
            wanted = inputs.pop("labels")
            outputs = model(**inputs)
            loss = torch.nn.functional.cross_entropy(
                outputs.logits.flatten(0, 1), wanted.flatten(), torch.tensor(weights)
            )
            return (loss, outputs) if more.get("return_outputs") else loss

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            lr_scheduler_type=schedule, warmup_steps=warmup, label_smoothing_factor=smoothing,
            eval_strategy="steps", eval_steps=100, logging_steps=50, save_strategy="no",
            report_to=[], disable_tqdm=True, use_cpu=True, seed=seed, max_grad_norm=1.0,
        )  # fmt: skip
        trainer = Weighted(
            model, arguments, train_dataset=data, eval_dataset=held, callbacks=[hook.huggingface()]
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    test = rows(500, seed + 32)
    model.eval()
    batch_of = {key: torch.tensor([row[key] for row in test]) for key in test[0]}
    wanted: Tensor = batch_of.pop("labels")
    with torch.no_grad():
        scores = model(**batch_of).logits
    return balanced_skill(scores[wanted >= 0], wanted[wanted >= 0])


CASES = cases(
    "token ingredients",
    train,
    {
        "plain": {},
        "batch of four, warm-up": {"batch": 4, "steps": 600, "warmup": 100},
        "rare labels weighted": {"weights": (4.0, 1.0, 1.0, 1.0, 1.0)},
        "label smoothing": {"smoothing": 0.2},
        "two layers, places frozen": {"layers": 2, "frozen": True},
    },
    {
        "labels of words on pieces": (
            "no-skill overfit inputs", {"fault": "labels of words on pieces"},
        ),
        "list of labels in a new order": (
            "no-skill worse overfit inputs", {"fault": "list of labels in a new order"},
        ),
        "words left out of the loss": (
            "ignored no-skill collapse", {"fault": "words left out of the loss"},
        ),
        "rate of 0.5": ("fast no-skill dead collapse", {"rate": 0.5, "schedule": "constant"}),
        "ten lines": ("overfit", {"count": 10}),
    },
)  # fmt: skip
