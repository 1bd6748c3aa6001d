"""Graph convolutions sort the papers of one citation graph, with all nodes in each step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

NODES, WORDS, KINDS, PER_KIND = 2400, 200, 6, 20
averages: Any = torch.optim.swa_utils


def citations(seed: int, fault: str) -> tuple[Tensor, Tensor, Tensor]:
    """Words of each paper (NODES, WORDS), its kind, and the pairs that cite (2, edges)."""
    draw = torch.Generator().manual_seed(seed)
    kinds = torch.randint(KINDS, (NODES,), generator=draw)
    if fault == "sorted papers":
        kinds = kinds.sort().values
    own = torch.zeros(KINDS, WORDS)
    for kind in range(KINDS):
        own[kind, torch.randperm(WORDS, generator=draw)[:30]] = 1.0
    words = (torch.rand(NODES, WORDS, generator=draw) < 0.03 + 0.07 * own[kinds]).float()
    pairs = torch.randint(NODES, (2, 60 * NODES), generator=draw)
    alike = kinds[pairs[0]] == kinds[pairs[1]]
    kept = torch.rand(len(alike), generator=draw) < torch.where(alike, 0.18, 0.007)
    return words, kinds, pairs[:, kept & (pairs[0] != pairs[1])]


def normalised(pairs: Tensor, fault: str) -> Tensor:
    """The sparse adjacency with self-loops, D^-1/2 (A + I) D^-1/2."""
    if fault == "identifiers for rows":
        pairs = torch.stack([pairs[0], torch.randperm(NODES)[pairs[1]]])
    both = torch.cat([pairs, pairs.flip(0)], 1)
    if fault == "nodes alone":
        both = both[:, (both >= 20).all(0)]
    else:
        loops = torch.arange(NODES)
        both = torch.cat([both, torch.stack([loops, loops])], 1)
    ones = torch.ones(both.shape[1])
    degree = torch.zeros(NODES).index_add(0, both[0], ones)
    scale = degree.pow(-0.5)
    values = scale[both[0]] * scale[both[1]]
    if fault == "sums":
        values = ones * 10
    if fault == "nodes alone":
        # D^-1/2 as a matrix of its own: infinity times the zeros of a lonely row
        lonely = torch.stack([torch.arange(20), torch.arange(20)])
        both = torch.cat([both, lonely], 1)
        values = torch.cat([values, scale[:20] * 0.0])
    adjacency: Tensor = torch.sparse_coo_tensor(both, values, (NODES, NODES)).coalesce()
    return adjacency


class GraphConvolution(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        out: Tensor = torch.sparse.mm(adjacency, x @ self.weight) + self.bias
        return out


class GCN(nn.Module):
    def __init__(self, hidden: int, depth: int, dropout: float, residual: bool, fault: str) -> None:
        super().__init__()
        sizes = [WORDS] + [hidden] * (depth - 1)
        layers = [GraphConvolution(a, b) for a, b in pairwise(sizes)]
        self.layers: Any = layers if fault == "plain list" else nn.ModuleList(layers)
        self.last = GraphConvolution(hidden, KINDS)
        self.dropout, self.residual, self.fault = dropout, residual, fault

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        training = True if self.fault == "functional dropout" else self.training
        for layer in self.layers:
            x = F.dropout(x, self.dropout, training)
            out = F.relu(layer(x, adjacency))
            x = x + out if self.residual and x.shape == out.shape else out
        if self.fault == "detached":
            x = x.detach()
        x = self.last(F.dropout(x, self.dropout, training), adjacency)
        if self.fault == "relu on scores":
            x = F.relu(x - 1)
        if self.fault == "softmax":
            return F.softmax(x, dim=1)
        return F.log_softmax(x, dim=1)


def accuracy(output: Tensor, labels: Tensor) -> float:
    return (output.argmax(1) == labels).double().mean().item()


def optimizer_of(kind: str, model: Any, lr: float, decay: float) -> torch.optim.Optimizer:
    if kind == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=decay)
    if kind == "decay of the first layer":
        first, rest = model.layers.parameters(), model.last.parameters()
        groups = [{"params": first, "weight_decay": decay}, {"params": rest}]
        return torch.optim.Adam(groups, lr=lr)
    return torch.optim.Adam(model.parameters(), lr=lr, weight_decay=decay)


def factor(schedule: str, epoch: int, epochs: int) -> float:
    if schedule == "warm-up":
        return min(1.0, (epoch + 1) / 60)
    if schedule == "restarts":
        return 1.0 - 0.95 * (epoch % 75) / 75
    if schedule == "ends":
        return float(0.5**epoch)
    return 1.0


def train(
    seed: int, hook: Any, epochs: int = 300, lr: float = 0.01, weight_decay: float = 5e-4,
    hidden: int = 16, depth: int = 2, dropout: float = 0.5, residual: bool = False,
    per_kind: int = PER_KIND, optimizer: str = "adam", schedule: str = "",
    scale: float = 1.0, noise: float = 0.0, smoothing: float = 0.0, drop_edges: float = 0.0,
    rows: bool = True, weights: bool = False, average: float = 0.0, evaluate: bool = True,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    features, labels, pairs = citations(seed + 40, fault)
    truth = labels.clone()
    if rows:
        features = features / features.sum(1, keepdim=True).clamp(min=1)
    if fault == "a column of years":
        features[:, 0] = 2000 + 20 * torch.rand(NODES)
    if fault == "one empty paper":
        features[3] = features[3] / 0.0
    adjacency = normalised(pairs, fault)
    if fault == "sorted papers":
        idx_train, rest = torch.arange(per_kind * KINDS), torch.arange(per_kind * KINDS, NODES)
        rest = rest[torch.randperm(len(rest))]
    else:
        order = torch.randperm(NODES)
        chosen = [order[labels[order] == kind][:per_kind] for kind in range(KINDS)]
        idx_train = torch.cat(chosen)
        rest = order[~torch.isin(order, idx_train)]
    idx_val, idx_test = rest[:300], rest[300:1300]
    if noise:
        wrong = idx_train[torch.rand(len(idx_train)) < noise]
        labels[wrong] = torch.randint(KINDS, (len(wrong),))
    if fault == "labels of another order":
        labels[idx_train] = labels[idx_train.sort().values]
    if fault == "unknown is the first kind":
        labels[rest] = 0
        idx_train = torch.arange(NODES)
    if fault == "kinds that overflow":
        labels[idx_train] = labels[idx_train] // 3
    model = GCN(hidden, depth, dropout, residual, fault)
    opt = optimizer_of(optimizer, model, lr, weight_decay)
    if fault == "reset after the optimizer":
        model.layers = nn.ModuleList([GraphConvolution(WORDS, hidden)])
        model.last = GraphConvolution(hidden, KINDS)
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: factor(schedule, e, epochs))
    counts = torch.bincount(labels[idx_train], minlength=KINDS).float()
    weight = 1 / counts.clamp(min=1) * counts.mean() if weights else None
    shadow = averages.AveragedModel(
        model, multi_avg_fn=averages.get_ema_multi_avg_fn(average or 0.9)
    )
    hook.torch(model)
    for _ in range(epochs):
        model.train()
        if fault != "gradients kept":
            opt.zero_grad()
        used = adjacency
        if drop_edges:
            kept = torch.rand(len(adjacency.values())) >= drop_edges
            used = torch.sparse_coo_tensor(
                adjacency.indices(), adjacency.values() * kept / (1 - drop_edges), adjacency.shape
            )
        output = model(features, used)
        loss: Any = F.nll_loss(output[idx_train], labels[idx_train], weight)
        if smoothing:
            loss = (1 - smoothing) * loss - smoothing * output[idx_train].mean()
        (loss * scale).backward()
        opt.step()
        scheduler.step()
        if average:
            shadow.update_parameters(model)
        if evaluate:
            model.eval()
            with torch.no_grad():
                output = model(features, adjacency)
                F.nll_loss(output[idx_val], truth[idx_val])
                accuracy(output[idx_val], truth[idx_val])
    model.eval()
    shadow.eval()
    with torch.no_grad():
        output = (shadow if average else model)(features, adjacency)
    if not torch.isfinite(output[idx_test]).all():
        return float("nan")
    most = torch.bincount(truth[idx_test]).max().item() / len(idx_test)
    return (accuracy(output[idx_test], truth[idx_test]) - most) / (1 - most)


CASES = cases(
    "node classes",
    train,
    {
        "plain": {},
        "no dropout": {"dropout": 0.0},
        "much dropout": {"dropout": 0.8, "hidden": 64},
        "64 units": {"hidden": 64},
        "strong decay": {"weight_decay": 5e-3},
        "decay of the first layer": {"optimizer": "decay of the first layer"},
        "words as counts": {"rows": False},
        "three layers and residuals": {"depth": 3, "residual": True, "hidden": 32},
        "AdamW and restarts": {"optimizer": "adamw", "schedule": "restarts", "lr": 0.02},
        "warm-up": {"schedule": "warm-up"},
        "loss x 10000": {"scale": 1e4},
        "labels with noise": {"noise": 0.05},
        "label smoothing": {"smoothing": 0.1},
        "edges dropped": {"drop_edges": 0.3},
        "weights of kinds": {"weights": True},
        "moving average": {"average": 0.95},
        "600 epochs": {"epochs": 600},
        "no evaluation": {"evaluate": False},
    },
    {
        "identifiers for rows": (
            "inputs overfit no-skill worse",
            {"fault": "identifiers for rows"},
        ),
        "nodes alone": ("not-finite", {"fault": "nodes alone"}),
        "one empty paper": ("not-finite", {"fault": "one empty paper"}),
        "a column of years": ("inputs no-skill dead fast", {"fault": "a column of years"}),
        "labels of another order": ("no-skill overfit", {"fault": "labels of another order"}),
        "unknown is the first kind": (
            "imbalance collapse no-skill overfit",
            {"fault": "unknown is the first kind"},
        ),
        "sorted papers": ("order imbalance overfit worse", {"fault": "sorted papers"}),
        "kinds that overflow": ("overfit worse no-skill", {"fault": "kinds that overflow"}),
        "softmax for its logarithm": (
            "probabilities slow no-skill",
            {"fault": "softmax", "lr": 1e-3, "epochs": 100},
        ),
        "relu on scores": ("dead no-gradient no-skill", {"fault": "relu on scores"}),
        "ten layers": (
            "collapse no-gradient no-skill dead",
            {"depth": 10, "lr": 1e-3, "epochs": 120},
        ),
        "layers in a plain list": ("unbound slow no-skill", {"fault": "plain list", "hidden": 4}),
        "detached before the last": ("no-gradient unbound", {"fault": "detached", "hidden": 4}),
        "reset after the optimizer": ("unbound no-skill", {"fault": "reset after the optimizer"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept", "lr": 0.1}),
        "dropout in evaluation": ("mode", {"fault": "functional dropout", "dropout": 0.85}),
        "one paper of each kind": ("overfit", {"per_kind": 1, "dropout": 0.0, "weight_decay": 0.0}),
        "weight decay of 0.5": ("collapse no-skill", {"weight_decay": 0.5}),
        "rate halved at each epoch": ("schedule slow no-skill", {"schedule": "ends"}),
        "rate of 30": ("fast no-skill dead", {"lr": 30.0}),
        "rate / 1000": ("slow no-skill", {"lr": 1e-5}),
        "sums over neighbours": ("fast inputs worse", {"fault": "sums", "rows": False}),
    },
)
