"""Helix, strand or coil for each residue of a protein, by dilated convolutions over its sequence.

Chains have unequal lengths; labels of the padding are -1 and do not count. Residues come with
hydropathy in its own unit and with a profile of relatives, as sequence databases give it. The
skill is the share of residues put right, above the most frequent state.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

RESIDUES, STATES, SHORTEST, LONGEST = 20, 3, 20, 48
COLUMNS = RESIDUES + 1
NO_STATE, SCALE = -1, 50.0
HYDROPATHY = torch.tensor(
    [1.8, -4.5, -3.5, -3.5, 2.5, -3.5, -3.5, -0.4, -3.2, 4.5,
     3.8, -3.9, 1.9, 2.8, -1.6, -0.8, -0.7, -0.9, -1.3, 4.2]
)  # fmt: skip
BY_THREE_LETTERS = [0, 14, 11, 2, 1, 13, 3, 5, 6, 7, 9, 8, 10, 4, 12, 15, 16, 18, 19, 17, 20]
LIKES = torch.randn(STATES, RESIDUES, generator=torch.Generator().manual_seed(5)) * 0.9
LIKES[:, 14] = torch.tensor([-4.0, -4.0, 1.0])  # proline breaks helices and strands


class Chains(Dataset[tuple[Tensor, Tensor]]):
    """Segments of a state each; a residue is drawn by what its state likes."""

    def __init__(self, count: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.chains: list[tuple[Tensor, Tensor]] = []
        shares = torch.tensor([0.35, 0.25, 0.4])
        for _ in range(count):
            length = int(torch.randint(SHORTEST, LONGEST + 1, (1,), generator=draw))
            kinds = torch.multinomial(shares, length // 4 + 1, True, generator=draw)
            spans = torch.randint(4, 10, (len(kinds),), generator=draw)
            state = kinds.repeat_interleave(spans)[:length]
            residue = torch.multinomial(LIKES.softmax(1)[state], 1, True, generator=draw)[:, 0]
            relatives = torch.multinomial(LIKES.softmax(1)[state], 3, True, generator=draw)
            profile = F.one_hot(torch.cat([residue[:, None], relatives], 1), RESIDUES).float()
            x = torch.cat([100 * profile.mean(1), HYDROPATHY[residue][:, None]], 1)
            self.chains.append((x, state))

    def __len__(self) -> int:
        return len(self.chains)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.chains[index]


def pad(batch: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    pad_sequence = nn.utils.rnn.pad_sequence
    x = pad_sequence([x for x, _ in batch], batch_first=True)
    return x, pad_sequence([y for _, y in batch], batch_first=True, padding_value=NO_STATE)


class StateNet(nn.Module):
    def __init__(self, width: int, dropout: float, normed: bool) -> None:
        super().__init__()
        self.inner = nn.Conv1d(COLUMNS, width, 1)
        self.convs = nn.ModuleList(
            nn.Conv1d(width, width, 5, padding=2 * d, dilation=d) for d in (1, 2)
        )
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(width) if normed else nn.Identity() for _ in range(2)
        )
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Conv1d(width, STATES, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, length, states)."""
        h = torch.relu(self.inner(x.transpose(1, 2)))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + self.dropout(torch.relu(norm(conv(h))))
        scores: Tensor = self.outer(h).transpose(1, 2)
        return scores


def state_loss(scores: Tensor, state: Tensor, kind: str) -> Tensor:
    mask = (state != NO_STATE).float()
    if kind == "library":
        flat = scores.reshape(-1, STATES)
        return F.cross_entropy(flat, state.reshape(-1), ignore_index=NO_STATE, reduction="sum")
    logs = scores.log_softmax(-1)
    picked = logs.gather(-1, state.clamp(min=0)[..., None])[..., 0]
    if kind == "smoothed":
        picked = 0.9 * picked + 0.1 * logs.mean(-1)
    mean = (picked * mask).sum() / mask.sum()
    return mean if kind == "sign" else -mean


@torch.no_grad()
def right_share(model: nn.Module, loader: DataLoader[Any], loss: str) -> tuple[float, float]:
    """The share of residues put right, and the most frequent state's share."""
    model.eval()
    right, counts = 0, torch.zeros(STATES)
    for x, state in loader:
        scores = model(x)
        state_loss(scores, state, loss)
        known = state != NO_STATE
        right += int((scores.argmax(-1) == state)[known].sum())
        counts += torch.bincount(state[known], minlength=STATES)
    return right / counts.sum().item(), (counts.max() / counts.sum()).item()


def train(
    seed: int, hook: Any, epochs: int = 16, count: int = 1600, batch: int = 12, rate: float = 2e-3,
    optimizer: str = "adam", schedule: str = "step", decay: float = 0.0, width: int = 32,
    dropout: float = 0.1, normed: bool = True, loss: str = "by hand",
    evaluate_every: int = 1, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known, held = Chains(count, 9 * seed + 41), Chains(100, 9 * seed + 42)
    test_chains = Chains(250, 9 * seed + 43)
    test = DataLoader(test_chains, 50, collate_fn=pad)
    if fault == "states of a shifted chain":  # counted from the first residue seen
        known.chains = [(x, y.roll(6)) for x, y in known.chains]
    train_loader = DataLoader(known, batch, shuffle=True, collate_fn=pad)
    val_loader = DataLoader(held, 50, collate_fn=pad)
    for part in (known, held, test_chains):
        part.chains = [(x / SCALE, y) for x, y in part.chains]
        if fault == "another alphabet in evaluation" and part is not known:
            part.chains = [(x[:, BY_THREE_LETTERS], y) for x, y in part.chains]
    model = StateNet(width, dropout, normed)
    parameters = list(model.parameters())
    if fault == "model built again":  # after its parameters were given away
        model = StateNet(width, dropout, normed)
    hook.torch(model)
    if optimizer == "sgd":
        steering: Any = torch.optim.SGD(
            parameters, rate, momentum=0.9, nesterov=True, weight_decay=decay
        )
    else:
        steering = torch.optim.AdamW(parameters, rate, weight_decay=decay)
    steps = epochs * len(train_loader)
    scheduler: Any = torch.optim.lr_scheduler.StepLR(steering, max(steps // 3, 1), 0.3)
    if schedule == "restarts":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(steering, steps // 4)
    if schedule == "one cycle":
        scheduler = torch.optim.lr_scheduler.OneCycleLR(steering, 3 * rate, steps)
    if schedule == "each batch as an epoch":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(steering, 0.5)
    for epoch in range(epochs):
        model.train()
        for x, state in train_loader:
            steering.zero_grad()
            error = state_loss(model(x), state, loss)
            error.backward()
            steering.step()
            scheduler.step()
        if evaluate_every and epoch % evaluate_every == 0:
            right_share(model, val_loader, loss)
    right, most = right_share(model, test, loss)
    return (right - most) / (1 - most)


CASES = cases(
    "protein structure",
    train,
    {
        "plain": {},
        "nesterov": {"optimizer": "sgd", "rate": 2e-2},
        "warm restarts": {"schedule": "restarts"},
        "loss of the library, summed": {"loss": "library"},
        "one cycle of large batches": {"schedule": "one cycle", "batch": 64, "epochs": 20},
        "smoothed labels": {"loss": "smoothed", "evaluate_every": 5},
        "no batch norm, heavy decay": {"normed": False, "decay": 0.5},
    },
    {
        "another alphabet in evaluation": (
            "inputs worse",
            {"fault": "another alphabet in evaluation"},
        ),
        "wrong sign": ("worse no-skill", {"loss": "sign"}),
        "states of a shifted chain": ("no-skill overfit", {"fault": "states of a shifted chain"}),
        "each batch as an epoch": ("schedule slow", {"schedule": "each batch as an epoch"}),
        "model built again": ("unbound no-gradient no-skill", {"fault": "model built again"}),
        "summed at the rate of a mean": (
            "fast worse not-finite dead collapse no-skill",
            {"loss": "library", "optimizer": "sgd", "rate": 3e-2, "normed": False},
        ),
    },
    certain=("model built again",),
)
