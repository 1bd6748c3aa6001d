"""The range that a dial's hand points at, by a small ViT of its own and Hugging Face's Trainer.

Photos of 16 by 16 pixels show a round dial, not quite in the middle, with a hand, in good or poor
light. Six ranges of 60 degrees are to be distinguished. The skill is the accuracy on other photos
above that of the most frequent range.
"""

from __future__ import annotations

import math
import os
import tempfile
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor

from benchmarks.detection.case import cases

SIDE, RANGES = 16, 6
MEAN, DEVIATION = 104.0, 62.0
"""Of the pixels of all photos."""


def photos(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pixels (count, 1, SIDE, SIDE) from 0 to 255, and the range of each."""
    draw = torch.Generator().manual_seed(seed)
    angle, light, left, down = torch.rand(4, count, 1, 1, generator=draw)
    turn = 2 * math.pi * angle
    place = torch.arange(SIDE) - SIDE / 2 + 0.5
    x = place[None, None, :] - 2 * (left - 0.5)
    y = place[None, :, None] - 2 * (down - 0.5)
    along, aside = x * turn.cos() + y * turn.sin(), y * turn.cos() - x * turn.sin()
    face = ((7.5 - (x**2 + y**2).sqrt()) * 2).sigmoid()
    hand = ((6.5 - along) * 3).sigmoid() * (along * 3).sigmoid() * (-((aside / 0.9) ** 2)).exp()
    grey = (60 + 195 * (face * (1 - 0.9 * hand)) * 0.9) * (0.5 + 0.5 * light)
    grey = grey + 8 * torch.randn(grey.shape, generator=draw)
    return grey.clamp(0, 255)[:, None], (RANGES * angle[:, 0, 0]).long()


class Dials(torch.utils.data.Dataset[dict[str, Tensor]]):
    """Photos and ranges as the Trainer wants them, with a transformation as in a vision script."""

    def __init__(
        self, pixels: Tensor, ranges: Tensor, scaled: bool = True, flipped: bool = False
    ) -> None:
        self.pixels = (pixels - MEAN) / DEVIATION if scaled else pixels
        self.ranges, self.flipped = ranges, flipped

    def __len__(self) -> int:
        return len(self.ranges)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        picture = self.pixels[row]
        if self.flipped and torch.rand(()) < 0.5:  # RandomHorizontalFlip
            picture = picture.flip(-1)
        return {"pixel_values": picture, "labels": self.ranges[row]}


def accuracy(found: Any) -> dict[str, float]:
    return {"accuracy": float((np.argmax(found.predictions, -1) == found.label_ids).mean())}


def train(
    seed: int, hook: Any, rate: float = 2e-3, steps: int = 700, batch: int = 16,
    schedule: str = "linear", warmup: int = 50, count: int = 3000, noise: float = 0.0,
    smoothing: float = 0.0, frozen: str = "", evaluated: str = "steps", start: float = 0.1,
    layers: int = 2, fault: str = "", **arguments: Any,
) -> float:  # fmt: skip
    os.environ.update({"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"})
    begin(seed)
    import transformers

    (x, y), held = photos(count, 5 * seed + 70), photos(256, 5 * seed + 71)
    test_x, test_y = photos(1500, 5 * seed + 72)
    if fault == "names of files sorted as text":  # 10.png comes before 2.png
        x = x[torch.tensor(sorted(range(count), key=str))]
    if noise:
        wrong = torch.rand(count) < noise
        y = torch.where(wrong, torch.randint(RANGES, (count,)), y)
    config = transformers.ViTConfig(
        image_size=SIDE, patch_size=4, num_channels=1, hidden_size=32, num_hidden_layers=layers,
        num_attention_heads=4, intermediate_size=64, num_labels=RANGES, initializer_range=start,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not (frozen and name.startswith(frozen)))
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "max_steps": steps, "per_device_train_batch_size": batch, "learning_rate": rate,
            "lr_scheduler_type": schedule, "warmup_steps": warmup, "eval_strategy": evaluated,
            "label_smoothing_factor": smoothing, "eval_steps": 100, "logging_steps": 50,
            "per_device_eval_batch_size": 64, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "use_cpu": True, "seed": seed,
        }  # fmt: skip
        scaled = fault != "scaled in training alone"
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(folder, **settings | arguments),
            train_dataset=Dials(x, y, flipped=fault == "flipped at random"),
            eval_dataset=Dials(*held, scaled=scaled),
            compute_metrics=accuracy,
            callbacks=[hook.huggingface()],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    model.eval()
    with torch.no_grad():
        scores = model(pixel_values=Dials(test_x, test_y, scaled=scaled).pixels).logits
    return class_skill(scores, test_y)


CASES = cases(
    "dial photos",
    train,
    {
        "plain": {},
        "bfloat16, batch of 64": {"bf16": True, "batch": 64, "steps": 400, "rate": 3e-3},
        "accumulated batches of four": {
            "batch": 4, "gradient_accumulation_steps": 4, "steps": 600,
        },
        "cosine with restarts": {
            "schedule": "cosine_with_restarts", "lr_scheduler_kwargs": {"num_cycles": 3},
        },
        "smoothed, not evaluated": {"smoothing": 0.2, "evaluated": "no"},
        "embeddings frozen": {"frozen": "vit.embeddings.patch", "steps": 800},
        "some labels wrong": {"noise": 0.1, "steps": 900},
    },
    {
        "flipped at random": ("no-skill inputs worse", {"fault": "flipped at random"}),
        "names of files sorted as text": (
            "no-skill overfit", {"fault": "names of files sorted as text"},
        ),
        "scaled in training alone": (
            "inputs overfit worse", {"fault": "scaled in training alone"},
        ),
        "rate of 0.1": ("fast no-skill dead collapse", {"rate": 0.1, "warmup": 0}),
        "only the head is trained": ("slow unbound no-skill", {"frozen": "vit.", "rate": 2e-4}),
        "forty photos": ("overfit", {"count": 40}),
    },
)  # fmt: skip
