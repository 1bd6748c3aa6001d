"""Whether a sentence follows from another: a small BERT reads both, by transformers' Trainer.

The premise counts ("9 of 10"), the hypothesis says "most": what holds of most holds of some, not
the other way round, and a hypothesis with a detail is of the third kind. What follows is most
frequent, so the loss weighs classes. The skill is the mean recall, above chance.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import balanced_skill, begin, with_noise
from torch import Tensor

from benchmarks.detection.case import cases

CLS, SEP, FIRST_WORD, LEVELS, SAME = 1, 2, 3, 8, 3
FILLING = FIRST_WORD + 2 * LEVELS * SAME
DETAILS = FILLING + 20
FIRST, SECOND, KINDS = 6, 4, 3
LENGTH = FIRST + SECOND + 3


def pairs(count: int, seed: int, fault: str = "") -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    kind = torch.multinomial(torch.tensor([0.6, 0.2, 0.2]), count, True, generator=draw)
    two = torch.rand(count, LEVELS, generator=draw).argsort(1)[:, :2].sort(1).values
    less, more = two[:, 0], two[:, 1]

    def words(level: Tensor, length: int, start: int) -> Tensor:
        said = start + SAME * level[:, None] + torch.randint(SAME, (count, 1), generator=draw)
        fill = FILLING + torch.randint(20, (count, length - 1), generator=draw)
        order = torch.rand(count, length, generator=draw).argsort(1)
        return torch.cat([said, fill], 1).gather(1, order)

    first = words(torch.where(kind == 1, less, more), FIRST, FIRST_WORD)
    second = words(torch.where(kind == 1, more, less), SECOND, FILLING - LEVELS * SAME)
    detail = DETAILS + torch.randint(4, (count, 1), generator=draw)
    second = torch.where(kind[:, None] == 2, torch.cat([detail, second[:, 1:]], 1), second)
    one = torch.ones(count, 1, dtype=torch.long)
    read = torch.cat([CLS * one, first, SEP * one, second, SEP * one], 1)
    segment = (torch.arange(LENGTH) > FIRST + 1).long().expand(count, -1)
    mask = torch.ones_like(read)
    if fault == "second cut off":
        read[:, FIRST + 2 :], mask[:, FIRST + 2 :] = 0, 0
    if fault == "hypotheses of another file":
        read[:, FIRST + 2 :] = read[torch.randperm(count, generator=draw), FIRST + 2 :]
    return {"input_ids": read, "token_type_ids": segment, "attention_mask": mask, "labels": kind}


class Rows(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __init__(self, columns: dict[str, Tensor]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["labels"])

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {name: column[row] for name, column in self.columns.items()}


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 350, batch: int = 16, count: int = 4000,
    accumulate: int = 1, scheduler: str = "linear", warmup: int = 30, noise: float = 0.0,
    optimizer: str = "adamw_torch", loss: str = "weighted", evaluated: str = "steps",
    frozen: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging

    logging.set_verbosity_error()
    known, held = pairs(count, seed + 31100, fault), pairs(300, seed + 31101, fault)
    test = pairs(1000, seed + 31102, "" if "file" in fault else fault)
    if noise:
        known["labels"] = with_noise(known["labels"], noise, seed)
    if fault == "kinds in another order":  # another data set's numbers of the same three kinds
        known["labels"] = (known["labels"] + 1) % KINDS
    weight = 1 / torch.bincount(known["labels"], minlength=KINDS).float().clamp(min=1)
    weight = weight / weight.mean()

    class Weighted(Trainer):  # type: ignore[misc]
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, **others: Any
        ) -> Any:
            wanted = inputs.pop("labels")
            outputs = model(**inputs)
            scores = outputs.logits
            if loss == "softmax before":
                scores = 0.2 * scores.softmax(-1)
            if loss == "focal":
                error = F.cross_entropy(scores, wanted, reduction="none")
                value = (weight[wanted] * (1 - (-error).exp()) ** 2 * error).mean()
            else:
                value = F.cross_entropy(scores, wanted, weight)
            return (value, outputs) if return_outputs else value

    config = BertConfig(
        vocab_size=DETAILS + 4, hidden_size=32, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=64, max_position_embeddings=LENGTH,
        num_labels=KINDS, hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not frozen or frozen not in name
    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            gradient_accumulation_steps=accumulate, lr_scheduler_type=scheduler, optim=optimizer,
            warmup_steps=warmup, eval_strategy=evaluated, eval_steps=90, report_to=[],
            save_strategy="no", disable_tqdm=True, seed=seed, use_cpu=True, logging_steps=50,
            per_device_eval_batch_size=100,
        )  # fmt: skip
        trainer = Weighted(
            model, how, train_dataset=Rows(known), eval_dataset=Rows(held),
            callbacks=[hook.huggingface()],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.eval()
    wanted = test.pop("labels")
    with torch.no_grad():
        return balanced_skill(model(**test).logits, wanted)


CASES = cases(
    "following sentences",
    train,
    {
        "plain": {},
        "warm-up of a third, cosine": {"warmup": 150, "scheduler": "cosine", "rate": 3e-3},
        "accumulated": {"batch": 8, "accumulate": 2},
        "focal loss": {"loss": "focal"},
        "kinds with noise": {"noise": 0.1, "steps": 450},
        "positions frozen": {"frozen": "position_embeddings"},
        "Adafactor, not evaluated": {"optimizer": "adafactor", "evaluated": "no"},
    },
    {
        "second sentence cut off": ("inputs no-skill overfit", {"fault": "second cut off"}),
        "hypotheses of another file": ("no-skill overfit", {"fault": "hypotheses of another file"}),
        "kinds in another order": ("overfit inputs", {"fault": "kinds in another order"}),
        "warm-up longer than training": ("schedule slow", {"warmup": 50000}),
        "frozen from the start": ("no-gradient unbound no-skill slow", {"frozen": "bert."}),
        "rate of another network": ("fast no-skill collapse", {"rate": 0.1}),
    },
)
