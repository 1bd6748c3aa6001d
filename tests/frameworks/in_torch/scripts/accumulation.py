"""Two micro-batches to a step of the optimizer; a module that is checkpointed; a DataLoader."""

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.GELU())
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(checkpoint(self.body, x, use_reentrant=False))


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(24, 8), torch.randn(24, 1))
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for number, (x, y) in enumerate(DataLoader(data, batch_size=4, num_workers=2)):
        loss = F.mse_loss(model(x), y) / 2
        loss.backward()
        print(f"{loss.item():.9g}")
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
