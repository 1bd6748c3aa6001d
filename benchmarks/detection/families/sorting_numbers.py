"""A small T5, new from its config, writes the tokens of a list in order, by transformers' Trainer.

A list has five to seven numbers of twenty, and ends with the token 1; labels of padding are -100.
The skill is the share of the places of other lists that are right when it writes by itself.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor

from benchmarks.detection.case import cases

NUMBERS, LONGEST = 20, 7
PAD, END, FIRST = 0, 1, 2


def lists(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Numbers and the numbers in order, with an end, padded with 0 (count, LONGEST + 1)."""
    draw = torch.Generator().manual_seed(seed)
    size = torch.randint(5, LONGEST + 1, (count, 1), generator=draw)
    place = torch.arange(LONGEST + 1)
    chosen = torch.rand(count, NUMBERS, generator=draw).argsort(1)[:, : LONGEST + 1] + FIRST
    ordered = chosen.masked_fill(place >= size, NUMBERS + FIRST).sort(1).values

    def ended(rows: Tensor) -> Tensor:
        return torch.where(place < size, rows, torch.where(place == size, END, PAD))

    return ended(chosen), ended(ordered)


class Rows(torch.utils.data.Dataset):
    def __init__(self, data: tuple[Tensor, Tensor], fault: str, masked: bool = True) -> None:
        self.numbers, self.ordered = data
        self.fault, self.masked = fault, masked

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        numbers, ordered = self.numbers[row], self.ordered[row]
        labels = ordered.masked_fill(ordered == PAD, -100) if self.masked else ordered
        real = (numbers != PAD).long()
        if self.fault == "mask the wrong way":
            real = 1 - real
        sample = {"input_ids": numbers, "attention_mask": real, "labels": labels}
        if self.fault == "decoder sees the answer":
            sample["decoder_input_ids"] = ordered
        if self.fault == "labels of the padding alone":
            sample["labels"] = ordered.masked_fill(ordered > END, -100)
        return sample


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 300, batch: int = 32,
    accumulate: int = 1, scheduler: str = "linear", warmup: int = 0, optimizer: str = "adamw_torch",
    bfloat16: bool = False, masked: bool = True, count: int = 6000, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    from transformers import T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging

    logging.set_verbosity_error()
    data, held, test = (lists(n, seed + 9000 + n) for n in (count, 200, 300))
    asked = test[0]
    if fault == "numbers have other tokens":
        again = torch.cat([torch.arange(FIRST), FIRST + torch.randperm(NUMBERS)])
        held, asked = (again[held[0]], held[1]), again[asked]
    config = T5Config(
        vocab_size=NUMBERS + FIRST, d_model=48, d_kv=12, d_ff=64, num_layers=1,
        num_decoder_layers=1, num_heads=4, dropout_rate=0.0, decoder_start_token_id=PAD,
        pad_token_id=PAD, eos_token_id=END, tie_word_embeddings=False,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            gradient_accumulation_steps=accumulate, lr_scheduler_type=scheduler, optim=optimizer,
            warmup_steps=warmup, eval_strategy="steps", eval_steps=90, report_to=[], seed=seed,
            save_strategy="no", disable_tqdm=True, use_cpu=True, logging_steps=50,
            bf16=bfloat16,
        )  # fmt: skip
        trainer = Trainer(
            model, how, train_dataset=Rows(data, fault, masked),
            eval_dataset=Rows(held, fault, masked), callbacks=[hook.huggingface()],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.eval()
    with torch.no_grad():
        written = model.generate(
            input_ids=asked, attention_mask=(asked != PAD).long(), do_sample=False, num_beams=1,
            min_new_tokens=LONGEST + 1, max_new_tokens=LONGEST + 1,
        )[:, 1:]  # fmt: skip
    real = test[1] > END
    right = (written == test[1])[real].double().mean().item()
    # Without a look at the list: the number that is most frequent at each place.
    frequent = torch.stack([torch.bincount(c[c > END]).argmax() for c in data[1][:, :LONGEST].T])
    base = (test[1][:, :LONGEST] == frequent)[real[:, :LONGEST]].double().mean().item()
    return float((right - base) / (1 - base))


CASES = cases(
    "sorting numbers",
    train,
    {
        "plain": {},
        "Adafactor": {"optimizer": "adafactor", "rate": 1e-2},
        "warm-up and restarts": {
            "scheduler": "cosine_with_restarts",
            "warmup": 60,
            "rate": 4e-3,
        },
        "loss of padding too": {"masked": False},
        "bfloat16": {"bfloat16": True},
        "two batches for one": {"batch": 16, "accumulate": 2, "steps": 250},
    },
    {
        "decoder sees the answer": ("leak", {"fault": "decoder sees the answer"}),
        "mask the wrong way": ("inputs no-skill ignored", {"fault": "mask the wrong way"}),
        "labels of the padding alone": (
            "ignored no-skill collapse",
            {"fault": "labels of the padding alone", "masked": False},
        ),
        "numbers have other tokens": ("inputs overfit", {"fault": "numbers have other tokens"}),
        "rate as for fine-tuning": ("slow no-skill", {"rate": 5e-5}),
    },
)
