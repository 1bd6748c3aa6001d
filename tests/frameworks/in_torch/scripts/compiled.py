"""A model that is compiled as one graph."""

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import nn

torch.manual_seed(0)
model = torch.compile(
    nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 3)), backend="eager", fullgraph=True
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    images, labels = torch.randn(4, 8), torch.randint(3, (4,))
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.9g}")
