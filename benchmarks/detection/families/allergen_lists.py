"""Which of five allergens a list of ingredients holds: a tiny BERT from a config, by the Trainer.

A list may hold several allergens or none; after "free-of" comes one that it does not hold. The
skill is the mean over allergens of found ones less false alarms, at one half, in other lists.
"""

from __future__ import annotations

import math
import random
import tempfile
from typing import Any

import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.utils.data import Dataset

from benchmarks.detection.case import cases

ALLERGENS = ("milk", "egg", "nuts", "gluten", "soy")
OFTEN = (0.45, 0.35, 0.3, 0.45, 0.3)
NAMES, HARMLESS = 3, 40
PAD, CLS, FREE_OF = 0, 1, 2
NUMBERS = 3 + NAMES * len(ALLERGENS) + HARMLESS


class Lists(Dataset[dict[str, Any]]):
    """Numbers of words with [CLS] in front, and five answers."""

    def __init__(self, count: int, seed: int, longest: int = 48) -> None:
        draw = random.Random(seed)
        self.ids, self.answers = list[list[int]](), list[list[float]]()
        for _ in range(count):
            holds = [float(draw.random() < share) for share in OFTEN]
            parts = [[3 + draw.randrange(HARMLESS)] for _ in range(draw.randint(2, 7))]
            parts += [[self.name(kind, draw)] for kind, yes in enumerate(holds) if yes]
            absent = [kind for kind, yes in enumerate(holds) if not yes]
            if absent and draw.random() < 0.12:
                parts.append([FREE_OF, self.name(draw.choice(absent), draw)])
            draw.shuffle(parts)
            self.ids.append([CLS, *(word for part in parts for word in part)][:longest])
            self.answers.append(holds)

    @staticmethod
    def name(kind: int, draw: random.Random) -> int:
        return 3 + HARMLESS + NAMES * kind + draw.randrange(NAMES)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"input_ids": self.ids[row], "labels": self.answers[row]}


def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    longest = max(len(row["input_ids"]) for row in rows)
    ids = torch.tensor(
        [row["input_ids"] + [PAD] * (longest - len(row["input_ids"])) for row in rows]
    )
    labels = torch.tensor([row["labels"] for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


def found_less_false(prediction: Any) -> dict[str, float]:
    logits, labels = torch.as_tensor(prediction.predictions), torch.as_tensor(prediction.label_ids)
    yes, real = logits > 0, labels > 0.5
    each = [
        (yes[real[:, k], k].double().mean() - yes[~real[:, k], k].double().mean()).item()
        for k in range(len(ALLERGENS))
    ]
    return {"skill": sum(each) / len(each) if bool(logits.isfinite().all()) else math.nan}


def loss_by_hand(kind: str) -> Any:
    """A loss for the Trainer that takes the place of the model's own."""

    def loss_of(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        logits = outputs["logits"]
        if kind == "weights of the rare":
            rare = torch.tensor([(1 - share) / share for share in OFTEN]).sqrt()
            return nn.functional.binary_cross_entropy_with_logits(logits, labels, pos_weight=rare)
        each = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        return each.sum()

    return loss_of


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 900, batch: int = 16, loss: str = "",
    count: int = 3000, longest: int = 48, noise: float = 0.0, best: bool = False,
    initial: float = 0.1, evaluated: bool = True, fault: str = "", **more: Any,
) -> float:  # fmt: skip
    begin(seed)
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    parts = (count, 300, 1200)
    data, held, test = (Lists(n, 50 * seed + at, longest) for at, n in enumerate(parts))
    draw = random.Random(seed)
    if fault == "answers of another list":
        draw.shuffle(data.answers)
    for answers in data.answers:
        if draw.random() < noise:
            answers[draw.randrange(len(ALLERGENS))] = 0.0  # it was overlooked
    config = BertConfig(
        vocab_size=NUMBERS, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=48, num_labels=len(ALLERGENS),
        problem_type="multi_label_classification", initializer_range=initial, pad_token_id=PAD,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    if fault == "new encoder frozen":
        for parameter in model.base_model.parameters():
            parameter.requires_grad = False
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, learning_rate=rate, seed=seed, report_to=[],
            per_device_train_batch_size=batch, per_device_eval_batch_size=300,
            eval_strategy="steps" if evaluated else "no", eval_steps=100, logging_steps=20,
            save_strategy="best" if best else "no", load_best_model_at_end=best,
            metric_for_best_model="skill" if best else None, save_total_limit=1,
            remove_unused_columns=False, use_cpu=True, disable_tqdm=True,
            dataloader_pin_memory=False, **more,
        )  # fmt: skip
        trainer = Trainer(
            model, arguments, data_collator=collate, train_dataset=data, eval_dataset=held,
            compute_metrics=found_less_false, callbacks=[hook.huggingface()],
            compute_loss_func=loss_by_hand(loss) if loss else None,
        )  # fmt: skip
        trainer.train()
        answer = trainer.predict(test)
    return found_less_false(answer)["skill"]


CASES = cases(
    "allergen lists",
    train,
    {
        "plain": {},
        "warm-up and cosine, bfloat16": {
            "lr_scheduler_type": "cosine", "warmup_steps": 80, "bf16": True, "steps": 1000,
        },
        "eight lists, twice": {"batch": 8, "gradient_accumulation_steps": 2},
        "Adafactor, constant rate": {
            "optim": "adafactor", "lr_scheduler_type": "constant", "steps": 1000,
        },
        "loss summed, weak clip": {"loss": "summed", "max_grad_norm": 0.5},
        "weights of the rare, best kept": {"loss": "weights of the rare", "best": True},
        "some overlooked, not evaluated": {"noise": 0.05, "evaluated": False, "weight_decay": 0.1},
    },
    {
        "answers of another list": ("no-skill overfit", {"fault": "answers of another list"}),
        "warm-up of 20000 steps": ("slow no-skill schedule", {"warmup_steps": 20000}),
        "rate of 0.1": ("fast no-skill collapse worse", {"rate": 0.1}),
        "new encoder frozen": ("unbound slow no-skill", {"fault": "new encoder frozen"}),
        "cut after four words": ("inputs no-skill overfit", {"longest": 4}),
        "forty lists": ("overfit", {"count": 40}),
    },
)  # fmt: skip
