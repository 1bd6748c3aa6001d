"""An LSTM reads the last cycles of a machine's sensors and gives the cycles that remain."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

WINDOW, SENSORS, LIMIT = 20, 8, 60.0
LEVELS = torch.tensor([520.0, 640.0, 1590.0, 14.6, 554.0, 2388.0, 47.5, 8.4])
SPREADS = torch.tensor([0.5, 2.0, 9.0, 0.01, 4.0, 0.8, 0.3, 0.04])
TRENDS = torch.tensor([0.0, 1.0, 1.2, 0.0, -1.1, 0.9, 1.3, -0.8])


@dataclass
class Settings:
    epochs: int = 8
    rate: float = 3e-3
    batch: int = 64
    optimizer: str = "adam"
    loss: str = "mse"
    cell: str = "lstm"
    layers: int = 1
    hidden: int = 32
    dropout: float = 0.0
    unit: float = LIMIT
    target: str = "remaining"
    weight_decay: float = 0.0
    clip: float = 0.0
    scale: float = 1.0
    noise: float = 0.0
    schedule: str = ""
    accumulate: int = 1
    start: str = ""
    average: bool = False
    half: bool = False
    machines: int = 80
    evaluate: bool = True
    fault: str = ""


def machine(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """The readings of a machine until it fails (cycles, SENSORS), and what remains at each."""
    life = int(torch.randint(70, 140, (1,), generator=draw))
    remaining = torch.arange(life - 1, -1, -1).float()
    wear = torch.exp(-remaining / 30) * 4 + 0.1 * torch.randn(1, generator=draw)
    noise = 0.7 * torch.randn(life, SENSORS, generator=draw)
    return LEVELS + SPREADS * (wear[:, None] * TRENDS + noise), remaining


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """All windows of several machines; the target is the capped number of remaining cycles."""

    def __init__(self, machines: list[tuple[Tensor, Tensor]], target: str = "remaining") -> None:
        self.inputs: list[Tensor] = []
        self.targets: list[Tensor] = []
        for readings, remaining in machines:
            wanted = remaining.clamp(max=LIMIT)
            if target == "age":
                wanted = remaining.flip(0).clamp(max=LIMIT)
            if target == "logarithm":
                wanted = remaining.clamp(max=LIMIT).log()
            for end in range(WINDOW, len(readings) + 1):
                if target == "start of life" and remaining[end - 1] < 0.9 * LIMIT:
                    break
                self.inputs.append(readings[end - WINDOW : end])
                self.targets.append(wanted[end - WINDOW if target == "early" else end - 1])

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


class LifeModel(nn.Module):
    def __init__(self, how: Settings) -> None:
        super().__init__()
        kind = nn.GRU if how.cell == "gru" else nn.LSTM
        rnn: Any = kind(SENSORS, how.hidden, how.layers, batch_first=True)
        self.rnn = rnn
        self.dropout = nn.Dropout(how.dropout)
        self.fc = nn.Linear(how.hidden, 1)
        self.fault = how.fault
        if how.start == "orthogonal":
            nn.init.orthogonal_(rnn.weight_hh_l0)
            rnn.bias_ih_l0.data[how.hidden : 2 * how.hidden] = 1.0
        if how.start == "large":
            for weight in rnn.parameters():
                nn.init.normal_(weight, std=10.0)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.rnn(x)
        out: Tensor = self.fc(self.dropout(states[:, -1]))
        if self.fault == "sigmoid":
            return out.sigmoid().squeeze(-1)
        if self.fault == "relu at the end":
            return (out - 1).relu().squeeze(-1)
        return out if self.fault == "column" else out.squeeze(-1)


def criterion_of(kind: str) -> nn.Module:
    if kind == "huber":
        return nn.HuberLoss(delta=0.1)
    if kind == "l1":
        return nn.L1Loss()
    return nn.MSELoss(reduction="sum" if kind == "sum" else "mean")


def optimizer_of(how: Settings, model: nn.Module) -> torch.optim.Optimizer:
    if how.optimizer == "rmsprop":
        return torch.optim.RMSprop(model.parameters(), how.rate)
    if how.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), how.rate, momentum=0.9)
    return torch.optim.Adam(model.parameters(), how.rate, weight_decay=how.weight_decay)


def scheduler_of(how: Settings, optimizer: torch.optim.Optimizer) -> Any:
    if how.schedule == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, how.epochs)
    if how.schedule == "warm-up":
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: min(1, (epoch + 0.1) / 3))
    gamma = 0.5 if how.schedule else 1.0
    return torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma)


def inputs_of(machines: list[tuple[Tensor, Tensor]], how: Settings) -> list[tuple[Tensor, Tensor]]:
    """Scaled by what the training machines showed, for both halves alike."""
    if how.fault == "raw sensors":
        return machines
    every = torch.cat([readings for readings, _ in machines[: how.machines]])
    mean, std = every.mean(0), every.std(0)
    if how.fault == "scaled by the first reading":
        mean, std = machines[0][0][0], machines[0][0][0] * 10
    return [((readings - mean) / std, remaining) for readings, remaining in machines]


def predict(model: nn.Module, loader: Any, how: Settings) -> tuple[Tensor, Tensor]:
    if how.fault != "no eval":
        model.eval()
    predictions, targets = [], []
    with torch.no_grad():
        for x, y in loader:
            if how.fault == "window scaled for itself":
                x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
            if how.fault == "columns":
                x = x[..., [2, 6, 0, 7, 1, 5, 3, 4]]
            predictions.append(model(x).float().reshape(-1))
            targets.append(y / how.unit)
    return torch.cat(predictions), torch.cat(targets)


def train(seed: int, hook: Any, **options: Any) -> float:
    begin(seed)
    how = Settings(**options)
    draw = torch.Generator().manual_seed(seed + 700)
    machines = inputs_of([machine(draw) for _ in range(how.machines + 30)], how)
    if how.fault == "leak":
        for readings, remaining in machines:
            readings[:, 0] = remaining / LIMIT
    data = Windows(machines[: how.machines], how.target)
    held = Windows(machines[how.machines :])
    if how.noise:
        chosen = torch.rand(len(data)) < how.noise
        for row in chosen.nonzero().flatten().tolist():
            data.targets[row] = torch.rand(()) * LIMIT
    if how.fault == "missing reading":
        data.inputs[len(data) // 2] = data.inputs[len(data) // 2] * float("nan")
    loader = DataLoader(data, how.batch, shuffle=True)
    held_loader = DataLoader(held, 500)
    model = LifeModel(how)
    optimizer = optimizer_of(how, copy.deepcopy(model) if how.fault == "copy" else model)
    scheduler = scheduler_of(how, optimizer)
    criterion = criterion_of(how.loss)
    average = torch.optim.swa_utils.AveragedModel(model, use_buffers=True)
    hook.torch(model)
    for epoch in range(how.epochs):
        model.train()
        for number, (x, y) in enumerate(loader):
            with torch.autocast("cpu", torch.bfloat16, enabled=how.half):
                loss = criterion(model(x), y / how.unit) * how.scale
            if how.fault == "root":
                loss = torch.sqrt(criterion(model(x[:1]), model(x[:1]).detach())) + loss
            (loss / how.accumulate).backward()
            if how.clip:
                nn.utils.clip_grad_norm_(model.parameters(), how.clip)
            if number % how.accumulate == how.accumulate - 1:
                optimizer.step()
                if how.fault != "gradients kept":
                    optimizer.zero_grad()
            if how.schedule == "step of a batch":
                scheduler.step()
        if how.schedule != "step of a batch":
            scheduler.step()
        if how.average and epoch >= how.epochs // 2:
            average.update_parameters(model)
        if how.evaluate:
            predictions, targets = predict(model, held_loader, how)
            criterion(predictions, targets)
    if how.fault == "leak":  # unknown of a machine that still runs
        held.inputs = [window * (torch.arange(SENSORS) > 0) for window in held.inputs]
    predictions, targets = predict(average if how.average else model, held_loader, how)
    rmse = torch.sqrt(torch.mean((predictions - targets) ** 2)).item()
    return 1 - rmse**2 / targets.var().item()


CASES = cases(
    "remaining life",
    train,
    {
        "plain": {},
        "huber": {"loss": "huber"},
        "absolute error": {"loss": "l1"},
        "sum of squares": {"loss": "sum"},
        "target in cycles": {"unit": 1.0, "rate": 2e-2},
        "batch of four": {"batch": 4, "epochs": 2, "rate": 1e-3},
        "batch of 512": {"batch": 512, "epochs": 25, "rate": 1e-2},
        "two layers and dropout": {"layers": 2, "dropout": 0.2, "epochs": 6},
        "gru": {"cell": "gru"},
        "RMSprop": {"optimizer": "rmsprop", "rate": 1e-3},
        "momentum": {"optimizer": "sgd", "rate": 0.1, "clip": 1.0},
        "loss x 10000": {"scale": 1e4},
        "labels with noise": {"noise": 0.05},
        "cosine": {"schedule": "cosine", "rate": 6e-3},
        "warm-up": {"schedule": "warm-up"},
        "halved every third epoch": {"schedule": "halved", "rate": 6e-3},
        "accumulation": {"batch": 16, "accumulate": 4, "epochs": 6},
        "orthogonal start": {"start": "orthogonal"},
        "mean of weights": {"average": True},
        "bfloat16": {"half": True},
        "no evaluation": {"evaluate": False},
    },
    {
        "column against row": ("broadcast no-skill collapse", {"fault": "column"}),
        "raw sensors": (
            "inputs saturated dead no-skill no-gradient collapse",
            {"fault": "raw sensors"},
        ),
        "scaled by the first reading": (
            "inputs slow no-skill",
            {"fault": "scaled by the first reading"},
        ),
        "age for what remains": ("no-skill overfit worse", {"target": "age"}),
        "logarithm of zero": ("not-finite", {"target": "logarithm"}),
        "missing reading": ("not-finite", {"fault": "missing reading"}),
        "root of zero": ("not-finite", {"fault": "root"}),
        "only the start of lives": ("imbalance range overfit inputs", {"target": "start of life"}),
        "target of the first cycle": ("range overfit worse", {"target": "early"}),
        "columns of another order": ("inputs overfit", {"fault": "columns"}),
        "evaluation scaled by the window": (
            "inputs overfit",
            {"fault": "window scaled for itself"},
        ),
        "sigmoid for cycles": ("range saturated no-skill", {"fault": "sigmoid", "unit": 1.0}),
        "relu at the end": ("dead no-gradient no-skill collapse", {"fault": "relu at the end"}),
        "large start": ("saturated no-skill slow worse", {"start": "large"}),
        "optimizer of a copy": ("unbound no-skill slow", {"fault": "copy"}),
        "gradients kept": ("kept-gradients fast no-skill", {"fault": "gradients kept"}),
        "evaluation with dropout": ("mode", {"fault": "no eval", "dropout": 0.93}),
        "share of life as a sensor": ("leak inputs", {"fault": "leak"}),
        "weight decay of 1": ("collapse no-skill dead", {"weight_decay": 1.0}),
        "schedule steps at each batch": ("schedule slow", {"schedule": "step of a batch"}),
        "rate of 10": ("fast saturated no-skill", {"rate": 10.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
        "cycles with the rate of shares": ("slow range no-skill", {"unit": 1.0, "rate": 1e-4}),
    },
)
