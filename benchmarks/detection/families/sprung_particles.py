"""Particles on springs: a graph network that predicts the acceleration of each.

Six particles in the plane are joined by springs of different stiffness; of positions, velocities
and springs the network says how each is accelerated. Batches are one large graph, with its list of
edges. The skill is the share of the variance of accelerations explained in other systems.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense, explained
from torch import Tensor, nn

from benchmarks.detection.case import cases

COUNT = 6
SENDERS, RECEIVERS = (~torch.eye(COUNT, dtype=torch.bool)).nonzero().T
EDGES = len(SENDERS)

System = dict[str, Tensor]


def systems(count: int, seed: int, noise: float = 0.0) -> System:
    """Nodes (count, COUNT, 4), stiffness of edges (count, EDGES), accelerations of nodes.

    Places are in decimetres, the rest is in metres.
    """
    draw = torch.Generator().manual_seed(seed)
    place = torch.randn(count, COUNT, 2, generator=draw) * 1.2
    speed = torch.randn(count, COUNT, 2, generator=draw)
    joined = torch.rand(count, COUNT, COUNT, generator=draw) < 0.6
    stiff = torch.where(joined, 0.5 + torch.rand(count, COUNT, COUNT, generator=draw), 0.0)
    stiff = ((stiff + stiff.transpose(1, 2)) / 2)[:, SENDERS, RECEIVERS]
    apart = place[:, SENDERS] - place[:, RECEIVERS]
    length = apart.norm(dim=-1, keepdim=True) + 1e-6
    pull = stiff[..., None] * (length - 1.0) * apart / length
    force = torch.zeros(count, COUNT, 2).index_add_(1, RECEIVERS, pull) - 0.3 * speed
    force = force + noise * torch.randn(force.shape, generator=draw)
    return {"nodes": torch.cat([10 * place, speed], -1), "stiff": stiff, "acceleration": force}


def collate(data: System, rows: Tensor, offset: bool = True) -> System:
    """One graph of several systems; the nodes of each come after those before."""
    begins = torch.arange(len(rows))[:, None] * COUNT * offset
    return {
        "nodes": data["nodes"][rows].flatten(0, 1),
        "stiff": data["stiff"][rows].flatten()[:, None],
        "senders": (SENDERS + begins).flatten(),
        "receivers": (RECEIVERS + begins).flatten(),
        "acceleration": data["acceleration"][rows].flatten(0, 1),
    }


class Interactions(nn.Module):
    def __init__(self, width: int, relative: bool, dropout: float) -> None:
        super().__init__()
        self.relative = relative
        self.message = dense((3 if relative else 9, width, width), nn.SiLU)
        self.dropout = nn.Dropout(dropout)
        self.update = dense((4 + width, width, 2), nn.SiLU)

    def forward(self, graph: System) -> Tensor:
        nodes, senders, receivers = graph["nodes"], graph["senders"], graph["receivers"]
        if self.relative:
            ends = nodes[senders, :2] - nodes[receivers, :2]
        else:
            ends = torch.cat([nodes[senders], nodes[receivers]], 1)
        messages = self.dropout(self.message(torch.cat([ends, graph["stiff"]], 1)))
        received = torch.zeros(len(nodes), messages.shape[1]).index_add_(0, receivers, messages)
        out: Tensor = self.update(torch.cat([nodes, received], 1))
        return out


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 2200, batch: int = 16, width: int = 48,
    optimizer: str = "adam", relative: bool = True, loss: str = "squares", noise: float = 0.0,
    shaken: float = 0.0, dropout: float = 0.0, count: int = 3000, accumulate: int = 1,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data, held = systems(count, seed + 300, noise), systems(64, seed + 301)
    test = systems(300, seed + 302)
    scale = {key: part.flatten(0, 1).std(0) for key, part in data.items() if key != "stiff"}
    data = {key: part / scale[key] if key in scale else part for key, part in data.items()}
    if fault != "only training is scaled":
        held, test = (
            {**part, "nodes": part["nodes"] / scale["nodes"]} for part in (held, test)
        )  # fmt: skip
    model = Interactions(width, relative, dropout)
    hook.torch(model)
    kinds: Any = {"adam": torch.optim.Adam, "nadam": torch.optim.NAdam, "adamw": torch.optim.AdamW}
    stepper = kinds[optimizer](model.parameters(), lr=rate)
    falls = torch.optim.lr_scheduler.ExponentialLR(stepper, 0.1 ** (1 / steps))
    criterion = nn.L1Loss() if loss == "absolute" else nn.MSELoss()
    apart = fault != "edges without offset"
    for step in range(steps):
        for _ in range(accumulate):
            graph = collate(data, torch.randint(count, (batch,)), apart)
            wanted = graph["acceleration"]
            if fault == "nodes in another order":
                wanted = wanted[graph["nodes"][:, 0].argsort()]
            if shaken:
                graph["nodes"] = graph["nodes"] + shaken * torch.randn_like(graph["nodes"])
            (criterion(model(graph), wanted) / accumulate).backward()
        stepper.step()
        stepper.zero_grad()
        falls.step()
        if step % 300 == 299:
            model.eval()
            with torch.no_grad():
                graph = collate(held, torch.arange(64), apart)
                F.mse_loss(model(graph), graph["acceleration"] / scale["acceleration"])
            model.train()
    model.eval()
    with torch.no_grad():
        graph = collate(test, torch.arange(300), apart)
        return explained(model(graph) * scale["acceleration"], graph["acceleration"])


CASES = cases(
    "sprung particles",
    train,
    {
        "plain": {},
        "both ends as they are": {"relative": False, "width": 64, "steps": 3000},
        "measured with noise": {"noise": 0.3},
        "batch of one, accumulated": {"batch": 1, "accumulate": 3, "rate": 2e-3},
        "absolute error, NAdam": {"loss": "absolute", "optimizer": "nadam"},
        "positions shaken": {"shaken": 0.03},
    },
    {
        "edges without offset": ("inputs no-skill", {"fault": "edges without offset"}),
        "nodes in another order": ("no-skill overfit", {"fault": "nodes in another order"}),
        "only training is scaled": ("inputs overfit", {"fault": "only training is scaled"}),
        "three snapshots": ("overfit", {"count": 3}),
        "rate too high": ("fast dead no-skill worse", {"rate": 1.0}),
    },
)
