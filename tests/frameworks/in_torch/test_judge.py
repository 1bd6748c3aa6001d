"""``judge=True`` in PyTorch, Lightning and Hugging Face: findings in the log of a real training."""

from __future__ import annotations

import os
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from torch import nn

from tests.frameworks.judging import assert_judged

os.environ["HF_HUB_OFFLINE"] = "1"
pytestmark = pytest.mark.filterwarnings("ignore")
STEPS, TOO_HIGH = 60, 1e4
X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True)


class Regression(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return F.mse_loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), TOO_HIGH)


def test_lightning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from tocsin_hooks.lightning import TocsinCallback

    callback = TocsinCallback(tmp_path / "run", judge=True, save_interval=1)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), 8)
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(
        max_steps=STEPS,
        callbacks=[callback],
        accelerator="cpu",
        default_root_dir=tmp_path,
        **options,
    )
    trainer.fit(Regression(), data)
    assert_judged(tmp_path / "run", caplog)


def test_hugging_face(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import transformers
    from tocsin_hooks.huggingface import TocsinCallback

    sizes = {"n_layer": 1, "n_embd": 8, "n_head": 1, "vocab_size": 32, "n_positions": 16}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    tokens = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(64)]
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"),
        max_steps=STEPS,
        learning_rate=1e6,
        max_grad_norm=0.0,
        optim="sgd",
        report_to=[],
        save_strategy="no",
        use_cpu=True,
    )
    transformers.Trainer(
        transformers.GPT2LMHeadModel(config),
        arguments,
        train_dataset=tokens,
        callbacks=[TocsinCallback(tmp_path / "run", judge=True, save_interval=1)],
    ).train()
    assert_judged(tmp_path / "run", caplog)
