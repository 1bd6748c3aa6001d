"""The Trainer of transformers with its callback; the model returns its loss, as theirs do."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import scheduler_of
from benchmarks.detection.loop import GRADIENTS, Loop, optimizer_of, skill_of
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training


class Rows(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"x": self.x[row], "labels": self.y[row]}


class WithLoss(nn.Module):
    def __init__(self, t: Training) -> None:
        super().__init__()
        self.model, self.loss = t.model, t.loss

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Any]:
        outputs = self.model(x)
        return {"loss": self.loss(outputs, labels), "logits": outputs}


def train(t: Training, hook: RunHook) -> float:
    import transformers

    transformers.utils.logging.set_verbosity_error()
    warnings.filterwarnings("ignore")
    s = t.samples
    optimizer = optimizer_of(t, t.model)
    settings = transformers.TrainingArguments(
        output_dir=str(hook.folder.parent / "trainer"),
        max_steps=t.steps,
        per_device_train_batch_size=t.batch,
        per_device_eval_batch_size=128,
        eval_strategy="steps",
        eval_steps=max(1, t.steps // 8),
        max_grad_norm=t.clip or 0.0,
        save_strategy="no",
        logging_steps=50,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        dataloader_drop_last=True,
        prediction_loss_only=True,
        train_sampling_strategy="random" if t.shuffled else "sequential",
        seed=t.seed,
    )
    trainer = transformers.Trainer(
        WithLoss(t),
        settings,
        train_dataset=Rows(s.x, s.y),
        eval_dataset=Rows(s.held_x[:256], s.held_y[:256]),
        callbacks=[hook.huggingface()],
        optimizers=(optimizer, scheduler_of(optimizer, t.schedule, t.steps)),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return skill_of(t, t.model)


LOOP = Loop(
    train,
    without=frozenset(["adversarial", "episodes", "contrastive", "graph", "ctc", "series"]),
    parts=GRADIENTS,
)
