"""Topics of the papers of one citation graph, by graph convolutions over all nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import integers, normal
from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

NODES, FEATURES, TOPICS = 400, 16, 4


class GraphConvolutions(nn.Module):
    """Knows the graph; its inputs are numbers of nodes."""

    def __init__(self) -> None:
        super().__init__()
        y = integers(TOPICS, NODES, seed=15)
        linked = torch.rand(NODES, NODES, generator=torch.Generator().manual_seed(16))
        edges = (linked < torch.where(y[:, None] == y, 0.03, 0.004)).float()
        edges = ((edges + edges.T + torch.eye(NODES)) > 0).float()
        degree = edges.sum(1).rsqrt()
        features = normal(TOPICS, FEATURES, seed=17)[y] + 3 * normal(NODES, FEATURES, seed=18)
        self.register_buffer("edges", degree[:, None] * edges * degree)
        self.register_buffer("features", features / 3)
        self.first, self.second = nn.Linear(FEATURES, 24), nn.Linear(24, 24)

    def forward(self, nodes: Tensor) -> Tensor:
        hidden = (self.edges @ self.first(self.features)).relu()
        found: Tensor = (self.edges @ self.second(hidden)).relu()
        return found[nodes]


def samples(seed: int) -> Samples:
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(seed))
    y = integers(TOPICS, NODES, seed=15)[order]
    return Samples(order[:150], y[:150], order[150:], y[150:])


TASK = Task(
    frozenset(["classes", "graph", "joined", "small"]),
    samples,
    lambda: JoinedModel(GraphConvolutions(), nn.Linear(24, TOPICS)),
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 150, "rate": 1e-2, "batch": 150, "weight_decay": 5e-3},
)
