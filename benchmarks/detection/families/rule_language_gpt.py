"""A small GPT from its config learns a language of rules, by the Trainer of transformers.

A sentence has an article (one or many), a noun, up to three adverbs at random, a verb that the noun
and its number choose, one of the objects of that verb, and an ending that agrees with the article
and the object. The skill is the accuracy at verbs and endings above that of the most frequent word.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor

from benchmarks.detection.case import cases

PAD, START, NOUNS, VERBS, OBJECTS, ENDINGS, ADVERBS = 0, 1, 12, 8, 10, 6, 6
ARTICLE = 2
NOUN, VERB = ARTICLE + 2, ARTICLE + 2 + NOUNS
OBJECT, ENDING = VERB + VERBS, VERB + VERBS + OBJECTS
ADVERB = ENDING + ENDINGS
WORDS, LENGTH = ADVERB + ADVERBS, 9


def sentences(count: int, seed: int, nouns: int = NOUNS) -> tuple[Tensor, Tensor]:
    """Words (N, LENGTH), padded on the right, and where a word follows from those before."""
    rules = torch.Generator().manual_seed(871)
    verb_of = torch.randint(VERBS, (NOUNS, 2), generator=rules)
    object_of = torch.randint(OBJECTS, (VERBS, 4), generator=rules)
    ending_of = torch.randint(ENDINGS, (2, OBJECTS), generator=rules)
    draw = torch.Generator().manual_seed(seed)
    words = torch.zeros(count, LENGTH, dtype=torch.long)
    follows = torch.zeros(count, LENGTH, dtype=torch.bool)
    for row in range(count):
        number, noun, choice, adverbs = (
            int(torch.randint(most, (1,), generator=draw)) for most in (2, nouns, 4, 4)
        )
        verb = verb_of[noun, number]
        thing = object_of[verb, choice]
        between = (ADVERB + torch.randint(ADVERBS, (adverbs,), generator=draw)).tolist()
        sentence = [START, ARTICLE + number, NOUN + noun, *between, int(VERB + verb)]
        sentence += [int(OBJECT + thing), int(ENDING + ending_of[number, thing])]
        words[row, : len(sentence)] = torch.tensor(sentence)
        follows[row, [len(sentence) - 3, len(sentence) - 1]] = True
    return words, follows


def collate(rows: list[Tensor], fault: str) -> dict[str, Tensor]:
    words = torch.stack(rows)
    labels = words.masked_fill(words == PAD, -100)
    if fault == "labels shifted again":  # the model shifts them itself
        labels = torch.cat([labels[:, 1:], torch.full((len(labels), 1), -100)], 1)
    if fault == "answer mark never found":  # all before the answer is masked, and there is none
        labels = torch.full_like(labels, -100)
    return {"input_ids": words, "attention_mask": (words != PAD).long(), "labels": labels}


def train(
    seed: int, hook: Any, rate: float = 4e-3, steps: int = 400, batch: int = 8,
    accumulate: int = 2, scheduler: str = "linear", warmup: int = 40,
    optimizer: str = "adamw_torch", decay: float = 0.01, clip: float = 1.0,
    smoothing: float = 0.0, samples: int = 3000, evaluated: bool = True, frozen: str = "",
    fault: str = "", **config: Any,
) -> float:  # fmt: skip
    begin(seed)
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging

    logging.set_verbosity_error()
    words, _ = sentences(samples, seed + 8710)
    held, _ = sentences(200, seed + 8711)
    test, follows = sentences(500, seed + 8712)
    if fault == "vocabulary built again":  # its order differs from that of training
        renamed = torch.cat([torch.arange(2), 2 + torch.randperm(WORDS - 2)])
        held, test_words = renamed[held], renamed[test]
    else:
        test_words = test
    sizes: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16} | config
    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), sizes.pop("dropout", 0.0))
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=WORDS, bos_token_id=START, eos_token_id=START, **drops, **sizes)
    )
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not (frozen and frozen in name)
    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            gradient_accumulation_steps=accumulate, lr_scheduler_type=scheduler, optim=optimizer,
            warmup_steps=warmup, eval_strategy="steps" if evaluated else "no", eval_steps=100,
            report_to=[], save_strategy="no", disable_tqdm=True, seed=seed, use_cpu=True,
            logging_steps=50, per_device_eval_batch_size=100, max_grad_norm=clip,
            weight_decay=decay, label_smoothing_factor=smoothing,
        )  # fmt: skip
        trainer = Trainer(
            model, how, data_collator=lambda rows: collate(rows, fault),
            train_dataset=list(words), eval_dataset=list(held), callbacks=[hook.huggingface()],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.eval()
    with torch.no_grad():
        scores = model(test_words, attention_mask=(test_words != PAD).long()).logits[:, :-1]
    if not bool(torch.isfinite(scores).all()):
        return float("nan")
    wanted = test_words[:, 1:][follows[:, 1:]]
    right = (scores.argmax(2)[follows[:, 1:]] == wanted).double().mean().item()
    most = torch.bincount(wanted).max().item() / len(wanted)
    return float((right - most) / (1 - most))


CASES = cases(
    "rule language gpt",
    train,
    {
        "plain": {},
        "batch of four, accumulated four times": {"batch": 4, "accumulate": 4, "steps": 450},
        "warm-up for half of the steps": {"warmup": 250, "steps": 500},
        "cosine with restarts": {"scheduler": "cosine_with_restarts", "steps": 450},
        "Adafactor": {"optimizer": "adafactor", "rate": 1e-2, "steps": 500},
        "dropout, label smoothing": {"dropout": 0.1, "smoothing": 0.1, "steps": 600},
        "positions frozen, not evaluated": {
            "frozen": "wpe", "evaluated": False, "steps": 700,
        },
    },
    {
        "labels shifted again": ("ignored no-skill leak", {"fault": "labels shifted again"}),
        "answer mark never found": (
            "ignored not-finite no-gradient no-skill", {"fault": "answer mark never found"},
        ),
        "vocabulary built again": ("inputs overfit", {"fault": "vocabulary built again"}),
        "warm-up longer than the training": ("slow schedule", {"warmup": 20000}),
        "few sentences": ("overfit", {"samples": 20}),
        "all but the head frozen": (
            "unbound no-gradient no-skill slow",
            {"frozen": "transformer", "tie_word_embeddings": False},
        ),
    },
)  # fmt: skip
