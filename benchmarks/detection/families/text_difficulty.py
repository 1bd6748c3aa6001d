"""How difficult a text is to read, by a small BERT with one output and the Trainer of transformers.

Words are frequent or rare, texts are short or long and padded, and the score is standardised. The
skill is the share of the score's variance that is explained on other texts.
"""

from __future__ import annotations

import math
import tempfile
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal
from torch import Tensor

from benchmarks.detection.case import cases

WORDS, LENGTH = 150, 20
Text = dict[str, Tensor]


def texts(count: int, seed: int, noise: float = 0.15) -> list[Text]:
    """Rare words make a text difficult, and so does its length."""
    draw = torch.Generator().manual_seed(seed)
    rarity = normal(WORDS, seed=501)
    level = torch.randn(count, 1, generator=draw)
    words = torch.multinomial((level * rarity).softmax(1), LENGTH, True, generator=draw)
    length = torch.randint(8, LENGTH + 1, (count,), generator=draw)
    inside = torch.arange(LENGTH) < length[:, None]
    hard = (rarity[words] * inside).sum(1) / length
    score = hard + 0.08 * (length - 14) + noise * torch.randn(count, generator=draw)
    return [
        {"input_ids": words[i, : length[i]] + 3, "labels": score[i] / 0.9} for i in range(count)
    ]


def collate(rows: list[Text], longest: int = LENGTH, scale: float = 1.0) -> Text:
    """Pads to the longest text of the batch; 1 begins a text, and 0 is padding."""
    ids = [torch.cat([torch.ones(1).long(), row["input_ids"]])[:longest] for row in rows]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    labels = torch.stack([row["labels"] for row in rows])
    labels = (50 + 20 * labels) if scale != 1 else labels
    return {"input_ids": padded, "attention_mask": (padded != 0).long(), "labels": labels}


def measures(found: Any) -> dict[str, float]:
    said, true = (torch.as_tensor(part).flatten() for part in (found.predictions, found.label_ids))
    error = (said - true).square().mean().sqrt().item()
    return {"rmse": error, "pearson": torch.corrcoef(torch.stack([said, true]))[0, 1].item()}


def train(
    seed: int, hook: Any, rate: float = 1e-3, steps: int = 400, batch: int = 16, loss: str = "",
    noise: float = 0.15, longest: int = LENGTH, scale: float = 1.0, fault: str = "",
    patience: int = 0, layers: int = 1, **arguments: Any,
) -> float:  # fmt: skip
    begin(seed)
    import transformers as hf

    hf.utils.logging.set_verbosity_error()
    known, held, test = texts(3000, seed + 1, noise), texts(200, seed + 2), texts(800, seed + 3)
    if fault == "scores of other texts":
        known = [{**row, "labels": other["labels"]} for row, other in zip(known, known[7:])]  # noqa: B905
    if fault == "another vocabulary":
        recoded = torch.randperm(WORDS)
        for row in (*held, *test):
            row["input_ids"] = recoded[row["input_ids"] - 3] + 3
    config = hf.BertConfig(
        vocab_size=WORDS + 3, hidden_size=32, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=LENGTH + 2, num_labels=1,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = hf.BertForSequenceClassification(config)

    class OwnLoss(hf.Trainer):  # type: ignore[misc]
        def compute_loss(
            self, model: Any, inputs: Text, return_outputs: bool = False, **_: Any
        ) -> Any:
            labels = inputs["labels"]
            found = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
            said = found.logits
            if loss == "absolute":
                error = torch.nn.functional.l1_loss(said.squeeze(-1), labels)
            elif loss == "sigmoid":
                error = torch.nn.functional.mse_loss(said.squeeze(-1).sigmoid(), labels)
            else:
                error = ((said - labels) ** 2).mean()
            return (error, {"logits": said}) if return_outputs else error

    with tempfile.TemporaryDirectory() as folder:
        how = hf.TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            report_to=[], disable_tqdm=True, seed=seed, use_cpu=True, logging_steps=100,
            save_strategy="no", per_device_eval_batch_size=100, remove_unused_columns=False,
            **{"eval_strategy": "steps", "eval_steps": 100, **arguments},
        )  # fmt: skip
        trainer = (OwnLoss if loss else hf.Trainer)(
            model, how, train_dataset=known, eval_dataset=held, compute_metrics=measures,
            data_collator=lambda rows: collate(rows, longest, scale),
            callbacks=[hook.huggingface()],
        )  # fmt: skip
        trainer.remove_callback(hf.PrinterCallback)
        if patience:
            how.metric_for_best_model, how.greater_is_better = "rmse", False
            trainer.add_callback(hf.EarlyStoppingCallback(patience))
        trainer.train()
    model.eval()
    asked = collate(test, longest)
    with torch.no_grad():
        said = model(asked["input_ids"], asked["attention_mask"]).logits.flatten()
    if loss == "sigmoid":
        said = said.sigmoid()
    said = (said - 50) / 20 if scale != 1 else said
    return explained(said, asked["labels"]) if bool(said.isfinite().all()) else math.nan


CASES = cases(
    "text difficulty",
    train,
    {
        "plain": {},
        "mean absolute error": {"loss": "absolute"},
        "Adafactor": {"optim": "adafactor", "rate": 2e-3},
        "bfloat16": {"bf16": True},
        "readers disagree": {"noise": 0.6, "steps": 600},
        "cosine with warm-up": {"lr_scheduler_type": "cosine", "warmup_steps": 60, "layers": 2},
        "batch of four, no evaluation": {"batch": 4, "steps": 900, "eval_strategy": "no"},
    },
    {
        "column subtracted from a row": ("broadcast no-skill collapse", {"loss": "broadcast"}),
        "sigmoid of standard scores": ("range saturated", {"loss": "sigmoid"}),
        "scores from 0 to 100": ("range slow", {"scale": 20.0}),
        "cut after four words": ("inputs overfit", {"longest": 4}),
        "scores of other texts": ("no-skill overfit", {"fault": "scores of other texts"}),
        "evaluated with another vocabulary": ("inputs", {"fault": "another vocabulary"}),
        "rate of a tenth": ("fast no-skill collapse", {"rate": 0.1}),
    },
)
