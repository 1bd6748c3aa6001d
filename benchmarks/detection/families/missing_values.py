"""A price from a table with gaps: log-cosh or Student's t by hand, ended when it gets no better."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    dense,
    explained,
    normal,
    optimizer_of,
    scheduler_of,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

COLUMNS = 12


def table(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Columns in their own units with a tenth of them missing, prices as paid, and their core."""
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn(count, 5, generator=draw)
    x = hidden @ normal(5, COLUMNS, seed=31) + 0.3 * torch.randn(count, COLUMNS, generator=draw)
    core = 2 * torch.sin(hidden[:, 0]) + hidden[:, 1] * hidden[:, 2] + hidden[:, 3]
    heavy = torch.randn(count, generator=draw) / torch.rand(count, generator=draw).clamp(min=0.05)
    units = 10 ** torch.linspace(-1, 2, COLUMNS)
    x = x * units + 3 * units
    x[torch.rand(count, COLUMNS, generator=draw) < 0.1] = math.nan
    return x, core + 0.1 * heavy, core


def filled(x: Tensor, mean: Tensor, spread: Tensor, fault: str = "") -> Tensor:
    """Standardised, with the mean for what is missing, and a flag of it for each column."""
    missing = x.isnan()
    scaled = (x - mean) / spread
    if fault == "gaps inverted":
        scaled = torch.where(missing, scaled.nan_to_num(0.0), torch.zeros(()))
    elif fault == "sentinel":
        scaled = torch.where(missing, torch.tensor(-999.0), scaled)
    elif fault == "not a number":
        scaled[:, 1:] = scaled[:, 1:].nan_to_num(0.0)
    else:
        scaled = scaled.nan_to_num(0.0)
    return torch.cat([scaled, missing.float()], 1)


def log_cosh(error: Tensor) -> Tensor:
    return error.abs() + F.softplus(-2 * error.abs()) - math.log(2)


def student(error: Tensor, log_scale: Tensor, freedom: float = 3.0) -> Tensor:
    """The negative logarithm of its density, without the constant: it may be negative."""
    ratio = (error / log_scale.exp()) ** 2 / freedom
    return log_scale + (freedom + 1) / 2 * torch.log1p(ratio)


def train(
    seed: int, hook: Any, loss: str = "log-cosh", rate: float = 3e-3, steps: int = 1500,
    batch: int = 64, unit: float = 1.0, schedule: str = "constant", weighted: bool = False,
    erased: float = 0.0, noise: float = 0.0, clip: float = 0.0, rows_used: int = 6000,
    patience: int = 8, fault: str = "", average: float = 0.0,
) -> float:  # fmt: skip
    begin(seed)
    (raw, paid, _), (held_raw, held_paid, core) = table(6000, seed + 400), table(1500, seed + 401)
    raw, paid = raw[:rows_used], paid[:rows_used]
    mean, spread = raw.nanmean(0), (raw - raw.nanmean(0)).nan_to_num(0.0).std(0)
    x = filled(raw, mean, spread, fault)
    held = filled(held_raw, mean, spread, fault)
    if fault == "other filling in evaluation":
        held = filled(held_raw.nan_to_num(-999.0), mean, spread)
    if fault == "rows dropped from the inputs":
        whole = ~raw.isnan().any(1)
        x, paid = x[whole], paid[: int(whole.sum())]
    y = paid * unit
    if noise:
        y = torch.where(torch.rand(len(y)) < noise, y[torch.randperm(len(y))], y)
    model = nn.Module()
    model.net, model.log_scale = dense([2 * COLUMNS, 64, 64, 1]), nn.Parameter(torch.zeros(()))
    model.forward = model.net.forward
    parameters = model.net[4:].parameters() if fault == "head alone" else model.parameters()
    optimizer = optimizer_of("adamw", parameters, rate, 1e-4)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)

    def criterion(found: Tensor, wanted: Tensor) -> Tensor:
        error = found - wanted if fault == "broadcast" else found.squeeze(1) - wanted
        each = student(error, model.log_scale) if loss == "student" else log_cosh(error)
        if weighted:
            each = each * (0.5 + wanted.abs() / unit).clamp(max=3)
        return each.mean()

    best, worse_since, kept, smooth = math.inf, 0, copy.deepcopy(model.state_dict()), None
    for step in range(steps):
        rows = torch.randint(len(x), (min(batch, len(x)),))
        inputs = x[rows]
        if erased:
            gone = torch.rand(len(rows), COLUMNS) < erased
            known, flags = inputs.split(COLUMNS, 1)
            inputs = torch.cat([known * ~gone, torch.maximum(flags, gone.float())], 1)
        found = criterion(model(inputs), y[rows])
        if fault != "gradients kept":
            optimizer.zero_grad(set_to_none=True)
        found.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        if average:
            now = {name: value.clone() for name, value in model.state_dict().items()}
            smooth = smooth or now
            smooth = {n: average * smooth[n] + (1 - average) * now[n] for n in now}
        if step % 50 == 49:
            model.eval()
            with torch.no_grad():
                score = criterion(model(held), held_paid * unit).item()
            model.train()
            if score < best:
                best, worse_since, kept = score, 0, copy.deepcopy(smooth or model.state_dict())
            else:
                worse_since += 1
            if worse_since >= patience:
                break
    if patience < 100 and fault not in ("head alone",):
        model.load_state_dict(kept)
    with torch.no_grad():
        return explained(model.net(held).squeeze(1) / unit, core)


CASES = cases(
    "missing values",
    train,
    {
        "plain": {},
        "student's t": {"loss": "student"},
        "prices x 10⁴": {"unit": 1e4, "rate": 5e-2, "steps": 2500, "patience": 20},
        "small units, negative loss": {"loss": "student", "unit": 0.01, "rate": 2e-3},
        "rows weighted": {"weighted": True},
        "more values erased": {"erased": 0.05},
        "batch of four": {"batch": 4, "rate": 1e-3, "steps": 2500, "patience": 20},
        "restarts, weights averaged": {"schedule": "restarts", "rate": 5e-3, "average": 0.97},
        "clipped at each step": {"clip": 0.05},
        "a tenth of the prices wrong": {"noise": 0.1},
    },
    {
        "rows dropped from the inputs": ("no-skill", {"fault": "rows dropped from the inputs"}),
        "what is known is erased": ("inputs no-skill", {"fault": "gaps inverted"}),
        "gaps are -999": ("inputs worse", {"fault": "sentinel"}),
        "gaps are -999 in evaluation": (
            "inputs overfit",
            {"fault": "other filling in evaluation", "patience": 100},
        ),
        "a gap stays": ("not-finite", {"fault": "not a number"}),
        "each against all": ("broadcast no-skill", {"fault": "broadcast"}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "rate": 2e-2, "patience": 100},
        ),
        "head alone in the optimizer": ("unbound", {"fault": "head alone", "rate": 1e-3}),
        "memorises 80": ("overfit", {"rows_used": 80, "patience": 100}),
        "rate / 100": ("slow no-skill", {"rate": 1e-5, "steps": 600}),
        "rate x 300": ("fast worse no-skill dead", {"rate": 1.0, "patience": 100}),
    },
)
