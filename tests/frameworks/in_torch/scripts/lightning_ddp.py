"""For torchrun: a fit of two processes, captured by the callback; the run is the argument."""

import sys

import lightning.pytorch as pl
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from tocsin_hooks.lightning import TocsinCallback
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        print(f"rank {self.global_rank} {loss.item():.9g}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
data = TensorDataset(torch.randn(24, 4), torch.randint(3, (24,)))
trainer = pl.Trainer(
    max_epochs=1,
    accelerator="cpu",
    devices=2,
    strategy="ddp",
    callbacks=[TocsinCallback(sys.argv[1], save_interval=1)],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Net(), DataLoader(data, batch_size=4))
