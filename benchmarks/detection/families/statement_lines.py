"""What money was spent on, from a line of a bank statement: a small GPT-2 with a head, by Trainer.

A line has the words of a shop, a town, a reference and perhaps a sign of a transfer, after which
salaries and savings differ by one word. A GPT-2 from its config reads it from left to right; the
last token says one of seven purposes. The skill is the mean recall above chance, of other lines.
"""

from __future__ import annotations

import random
import tempfile
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import balanced_skill, begin
from torch import Tensor

from benchmarks.detection.case import cases

PURPOSES, SHOPS = 7, 12  # the last two purposes are transfers: to an account, and from one
SHARES = (6, 5, 4, 3, 3, 3, 3)
WORDS = ["<pad>", "<unk>", "card", "transfer", "to", "from", "fee"]
WORDS += [f"shop{purpose}.{n}" for purpose in range(5) for n in range(SHOPS)]
WORDS += [f"bank{n}" for n in range(8)] + [f"town{n}" for n in range(20)]
WORDS += [f"ref{n}" for n in range(20)]
NUMBER = {word: n for n, word in enumerate(WORDS)}


def lines(count: int, seed: int) -> list[tuple[str, int]]:
    """Lines of text and what each was for."""
    draw = random.Random(seed)
    made: list[tuple[str, int]] = []
    for _ in range(count):
        purpose = draw.choices(range(PURPOSES), SHARES)[0]
        if purpose < 5:
            shop = "misspelt" if draw.random() < 0.08 else f"shop{purpose}.{draw.randrange(SHOPS)}"
            said = [["card"], [shop]]
        else:
            said = [["transfer", ("to", "from")[purpose - 5], f"bank{draw.randrange(8)}"]]
        said += [[f"town{draw.randrange(20)}"] for _ in range(draw.randint(0, 2))]
        said += [[f"ref{draw.randrange(20)}"] for _ in range(draw.randint(1, 6))]
        said += [["fee"]] * draw.randint(0, 1)
        draw.shuffle(said)
        made.append((" ".join(word for part in said for word in part), purpose))
    return made


def tokenized(rows: list[tuple[str, int]], longest: int = 24) -> list[dict[str, Any]]:
    return [
        {"input_ids": [NUMBER.get(word, 1) for word in text.split()][:longest], "label": purpose}
        for text, purpose in rows
    ]


def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    ids = [torch.tensor(row["input_ids"]) for row in rows]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=0)
    labels = torch.tensor([row["label"] for row in rows])
    return {"input_ids": padded, "attention_mask": (padded != 0).long(), "labels": labels}


def scores_of(prediction: Any) -> dict[str, float]:
    scores, labels = torch.tensor(prediction.predictions), torch.tensor(prediction.label_ids)
    return {"balanced": balanced_skill(scores, labels)}


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 600, batch: int = 16, count: int = 4000,
    accumulate: int = 1, scheduler: str = "linear", warmup: int = 30, smoothing: float = 0.0,
    optimizer: str = "adamw_torch", decay: float = 0.0, dropout: float = 0.0, half: bool = False,
    evaluated: str = "steps", weighted: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    from transformers import GPT2Config, GPT2ForSequenceClassification, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging

    logging.set_verbosity_error()
    rows, held, test = (lines(n, 17 * seed + n) for n in (count, 300, 1500))
    if fault == "purposes sorted apart from lines":
        purposes = [purpose for _, purpose in sorted(rows, key=lambda row: row[0])]
        rows = [(text, of) for (text, _), of in zip(rows, purposes, strict=True)]
    if fault == "new lines in capitals":  # the vocabulary has small letters alone
        held, test = ([(text.upper(), of) for text, of in part] for part in (held, test))
    longest = 3 if fault == "cut after three tokens" else 24
    config = GPT2Config(
        vocab_size=len(WORDS), n_positions=24, n_embd=32, n_layer=2, n_head=4, n_inner=64,
        num_labels=PURPOSES, pad_token_id=0, embd_pdrop=dropout, resid_pdrop=dropout,
        attn_pdrop=dropout, initializer_range=0.1, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = GPT2ForSequenceClassification(config)
    if fault == "a body that knows nothing, frozen":
        model.transformer.requires_grad_(False)
    weights = torch.tensor([SHARES[0] / share for share in SHARES])

    class Weighted(Trainer):
        """The loss of classes with weights, as in the documentation's example."""

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, **more: Any
        ) -> Any:
            labels = inputs.pop("labels")
            found = model(**inputs)
            error = F.cross_entropy(found.logits, labels, weights)
            return (error, found) if return_outputs else error

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch, bf16=half,
            per_device_eval_batch_size=100, gradient_accumulation_steps=accumulate,
            learning_rate=rate, lr_scheduler_type=scheduler, warmup_steps=warmup, optim=optimizer,
            weight_decay=decay, label_smoothing_factor=smoothing, eval_strategy=evaluated,
            eval_steps=100, logging_steps=50, save_strategy="no", report_to=[], seed=seed,
            disable_tqdm=True, use_cpu=True, remove_unused_columns=False,
            lr_scheduler_kwargs={"num_cycles": 3} if "restarts" in scheduler else None,
        )  # fmt: skip
        trainer = (Weighted if weighted else Trainer)(
            model=model, args=arguments, train_dataset=tokenized(rows, longest),
            eval_dataset=tokenized(held, longest), data_collator=collate,
            compute_metrics=scores_of, callbacks=[hook.huggingface()],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.eval()
    inputs = collate(tokenized(test, longest))
    labels = inputs.pop("labels")
    with torch.no_grad():
        return balanced_skill(model(**inputs).logits, labels)


CASES = cases(
    "statement lines",
    train,
    {
        "plain": {},
        "weights of purposes": {"weighted": True},
        "half of it warm-up, cosine, decay": {"warmup": 300, "scheduler": "cosine", "decay": 0.1},
        "four lines, accumulated four times": {"batch": 4, "accumulate": 4, "steps": 450},
        "smoothed labels, dropout": {"smoothing": 0.1, "dropout": 0.1},
        "bfloat16, not evaluated": {"half": True, "evaluated": "no"},
        "restarts, Adafactor": {
            "optimizer": "adafactor", "scheduler": "cosine_with_restarts", "rate": 5e-3,
        },
    },
    {
        "purposes sorted apart from lines": (
            "no-skill overfit", {"fault": "purposes sorted apart from lines"},
        ),
        "new lines in capitals": ("inputs worse overfit", {"fault": "new lines in capitals"}),
        "rate for fine-tuning": ("slow no-skill", {"rate": 2e-5}),
        "cut after three tokens": ("no-skill", {"fault": "cut after three tokens"}),
        "a body that knows nothing, frozen": (
            "unbound slow no-skill", {"fault": "a body that knows nothing, frozen"},
        ),
        "rate of 1": ("fast no-skill worse collapse", {"rate": 1.0}),
    },
)  # fmt: skip
