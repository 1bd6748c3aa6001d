"""Rents of flats by a transformer over the columns of a table (an FT-Transformer).

Each number becomes a token by a weight and a bias of its own, each category by an embedding, and
a token of its own gathers them. The skill is the explained variance of a third set's rents.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIZES = (6, 4, 3)
"""Districts, kinds of heating, and states of repair."""


def flats(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers (N, 5) in their own units, categories (N, 3), and the rent in euros a month."""
    draw = torch.Generator().manual_seed(seed)
    kinds = torch.stack([torch.randint(size, (count,), generator=draw) for size in SIZES], 1)
    area = 30 + 90 * torch.rand(count, generator=draw)
    rooms = (area / 28 + torch.randn(count, generator=draw) * 0.5).round().clamp(1, 5)
    year = 1900 + 120 * torch.rand(count, generator=draw)
    floor = torch.randint(0, 9, (count,), generator=draw).float()
    minutes = 2 + 38 * torch.rand(count, generator=draw)
    a_metre = torch.tensor([9.0, 11, 12.5, 14, 16, 19])[kinds[:, 0]]
    a_metre = a_metre - 0.06 * minutes + 2.5 * ((year - 1960) / 60) ** 2
    a_metre = a_metre * torch.tensor([0.85, 1.0, 1.15])[kinds[:, 2]]
    rent = area * a_metre + 40 * rooms + torch.tensor([0.0, 30, 60, -50])[kinds[:, 1]]
    rent = rent + 8 * floor + 50 * torch.randn(count, generator=draw)
    return torch.stack([area, rooms, year, floor, minutes], 1), kinds, rent


class ColumnTransformer(nn.Module):
    def __init__(self, width: int, layers: int, dropout: float, norm_first: bool, fault: str):
        super().__init__()
        self.fault = fault
        self.weight = nn.Parameter(torch.randn(5, width) * 0.3)
        self.bias = nn.Parameter(torch.randn(5, width) * 0.3)
        self.categories = nn.ModuleList(nn.Embedding(size, width) for size in SIZES)
        self.gather = nn.Parameter(torch.randn(1, 1, width) * 0.3)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout, batch_first=fault != "batch is not first",
            norm_first=norm_first,
        )  # fmt: skip
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, numbers: Tensor, kinds: Tensor) -> Tensor:
        tokens = [numbers[..., None] * self.weight + self.bias]
        tokens += [of(kinds[:, n : n + 1]) for n, of in enumerate(self.categories)]
        h = self.encoder(torch.cat([self.gather.expand(len(numbers), 1, -1), *tokens], 1))
        rent: Tensor = self.head(h[:, 0])
        return rent if self.fault == "rents of two dimensions" else rent[:, 0]


def train(
    seed: int, hook: Any, width: int = 16, layers: int = 1, dropout: float = 0.0,
    norm_first: bool = True, rate: float = 1e-3, decay: float = 1e-5, batch: int = 32,
    steps: int = 2000, schedule: str = "constant", loss: str = "mse", logarithm: bool = False,
    bfloat16: bool = False, average: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    parts = [flats(size, seed + 8400 + n) for n, size in enumerate((4000, 500, 1500))]
    mean, spread = parts[0][0].mean(0), parts[0][0].std(0)
    middle, size = parts[0][2].mean(), parts[0][2].std()
    if fault == "euros as they are":
        middle, size = torch.tensor(0.0), torch.tensor(1.0)

    def wanted_of(rent: Tensor) -> Tensor:
        return (rent.clamp(min=100).log() - 6.8) * 2 if logarithm else (rent - middle) / size

    rows = [((numbers - mean) / spread, kinds, wanted_of(rent)) for numbers, kinds, rent in parts]
    if fault == "rents joined in another order":
        rows[0] = *rows[0][:2], rows[0][2][torch.randperm(len(rows[0][2]))]
    if fault == "categories counted again":  # in the order in which they are seen
        codes = [torch.arange(size).roll(1) for size in SIZES]
        for n in (1, 2):
            numbers, kinds, rent = rows[n]
            swapped = torch.stack([code[of] for code, of in zip(codes, kinds.T, strict=True)], 1)
            rows[n] = numbers, swapped, rent
    model = ColumnTransformer(width, layers, dropout, norm_first, fault)
    hook.torch(model)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    scheduler = scheduler_of(optimizer, schedule, steps)
    averaged = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average or 0.99)
    )
    criterion = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": F.smooth_l1_loss}[loss]
    loader = DataLoader(TensorDataset(*rows[0]), batch, shuffle=True, drop_last=True)
    step = 0
    while step < steps:
        for numbers, kinds, rent in loader:
            model.train()
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                error = criterion(model(numbers, kinds).float(), rent)
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            scheduler.step()
            if average:
                averaged.update_parameters(model)
            step += 1
            if step % 400 == 0:
                model.eval()
                with torch.no_grad():
                    criterion(model(*rows[1][:2]), rows[1][2])
            if step == steps:
                break
    final: Any = averaged if average else model
    final.eval()
    with torch.no_grad():
        found = final(*rows[2][:2]).reshape(-1)
    found = (found / 2 + 6.8).exp() if logarithm else found * size + middle
    return explained(found.double(), parts[2][2].double())


CASES = cases(
    "rent columns",
    train,
    {
        "plain": {},
        "logarithm of the rent": {"logarithm": True},
        "norms behind, warm-up": {"norm_first": False, "schedule": "warmup"},
        "bfloat16": {"bfloat16": True, "schedule": "cosine"},
        "absolute error, average of weights": {"loss": "mae", "average": 0.99},
        "restarts": {"schedule": "restarts", "rate": 2e-3},
    },
    {
        "rents of two dimensions": ("broadcast no-skill", {"fault": "rents of two dimensions"}),
        "batch is not first": ("no-skill collapse", {"fault": "batch is not first"}),
        "rents joined in another order": (
            "no-skill overfit",
            {"fault": "rents joined in another order"},
        ),
        "euros as they are": ("range slow no-skill", {"fault": "euros as they are"}),
        "categories counted again": ("inputs overfit", {"fault": "categories counted again"}),
    },
)
