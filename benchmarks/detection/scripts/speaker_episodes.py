"""Who speaks: episodes of five voices, each known from three utterances, by prototypical networks.

An utterance has twenty frames of sixteen bands: what is said, through the resonances of the voice,
and a microphone that adds its own tilt. Voices of the test were not trained on. The skill is the
accuracy in episodes of five, above chance.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, normal

FRAMES, BANDS, SOUNDS, TRAITS = 20, 16, 8, 4


class Voices:
    """Utterances of a number of voices, (voices, utterances, FRAMES, BANDS) in decibels."""

    def __init__(self, voices: int, seed: int, utterances: int = 24) -> None:
        draw = torch.Generator().manual_seed(seed)
        sounds = 2 * normal(SOUNDS, BANDS, seed=77)
        mixing = normal(SOUNDS, TRAITS, BANDS, seed=78)
        traits = torch.randn(voices, TRAITS, generator=draw)
        said = torch.randint(SOUNDS, (voices, utterances, FRAMES), generator=draw)
        colour = torch.einsum("vt,stb->vsb", traits, mixing)
        spoken = sounds[said] + colour[torch.arange(voices)[:, None, None], said]
        place = torch.linspace(-1, 1, BANDS)
        tilt = torch.randn(voices, utterances, 1, 2, generator=draw)
        heard = spoken + 3 * tilt[..., :1] + 3 * tilt[..., 1:] * place
        self.decibels = -50 + 6 * (heard + 1.5 * torch.randn(heard.shape, generator=draw))

    def episode(self, ways: int, shots: int, queries: int) -> tuple[Tensor, Tensor]:
        """Utterances to know the voices by, and those asked for: (ways, …, FRAMES, BANDS)."""
        voices = torch.randperm(len(self.decibels))[:ways]
        which = torch.rand(ways, self.decibels.shape[1]).argsort(1)[:, : shots + queries]
        chosen = self.decibels[voices[:, None], which]
        return chosen[:, :shots], chosen[:, shots:]


class Embedder(nn.Module):
    def __init__(self, units: int = 48, size: int = 24) -> None:
        super().__init__()
        self.frames = nn.Sequential(
            nn.Linear(BANDS, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU()
        )
        self.voice = nn.Linear(2 * units, size)

    def forward(self, x: Tensor) -> Tensor:
        h = self.frames(x)
        out: Tensor = self.voice(torch.cat([h.mean(-2), h.std(-2)], -1))
        return out


def train(
    seed: int, hook: Any, rate: float = 2e-3, episodes: int = 2000, ways: int = 5,
    shots: int = 3, queries: int = 5, likeness: str = "distance", optimizer: str = "adam",
    halved: int = 0, voices: int = 100,
    utterances: int = 24, evaluate: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known = Voices(voices, seed + 100, utterances)
    held, test = Voices(20, seed + 200), Voices(60, seed + 300)
    model = Embedder()
    hook.torch(model)
    if optimizer == "sgd":
        steps: Any = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    else:
        steps = torch.optim.Adam(model.parameters(), rate)
    halving = torch.optim.lr_scheduler.StepLR(steps, halved or 10**9, 0.5)

    def scores_of(support: Tensor, asked: Tensor) -> Tensor:
        """(queries, ways), one voice after another."""
        axis = 0 if fault == "mean over the voices" else 1
        prototypes = model((support + 50) / 20).mean(axis)
        embedded = model((asked + 50) / 20).flatten(0, 1)
        if likeness == "cosine":
            return 10 * F.normalize(embedded, dim=1) @ F.normalize(prototypes, dim=1).T
        squared = (embedded[:, None] - prototypes).pow(2).sum(-1)
        return squared if fault == "distance without its sign" else -squared

    def labels_of(count: int, each: int) -> Tensor:
        if fault == "labels repeated, not interleaved":
            return torch.arange(count).repeat(each)
        return torch.arange(count).repeat_interleave(each)

    for number in range(episodes):
        support, asked = known.episode(ways, shots, queries)
        scores = scores_of(support, asked)
        wanted = labels_of(ways, asked.shape[1])
        loss = F.cross_entropy(scores, wanted)
        if fault != "gradients kept":
            steps.zero_grad()
        loss.backward()
        steps.step()
        halving.step()
        if evaluate and number % 100 == 99:
            model.eval()
            with torch.no_grad():
                for _ in range(5):
                    scores = scores_of(*held.episode(5, shots, 5))
                    F.cross_entropy(scores, labels_of(5, 5))
            model.train()
    model.eval()
    right = torch.tensor(0.0)
    with torch.no_grad():
        for _ in range(100):
            found = scores_of(*test.episode(5, max(shots, 3), 5)).argmax(1)
            right += (found == torch.arange(5).repeat_interleave(5)).float().mean() / 100
    return (float(right) - 0.2) / 0.8


CASES = cases(
    "speaker episodes",
    train,
    {
        "plain": {},
        "twelve voices an episode": {"ways": 12, "queries": 3},
        "one utterance to know a voice by": {"shots": 1},
        "cosine with a temperature": {"likeness": "cosine"},
        "rate halved every 500 episodes": {"halved": 500, "rate": 4e-3},
        "SGD, no evaluation": {"optimizer": "sgd", "rate": 3e-3, "evaluate": False},
    },
    {
        "labels repeated, not interleaved": (
            "no-skill", {"fault": "labels repeated, not interleaved"},
        ),
        "distance without its sign": ("no-skill collapse", {"fault": "distance without its sign"}),
        "mean over the voices": (
            "no-skill collapse", {"shots": 5, "fault": "mean over the voices"},
        ),
        "gradients kept": (
            "kept-gradients fast", {"optimizer": "sgd", "rate": 3e-3, "fault": "gradients kept"},
        ),
        "five voices": ("overfit", {"voices": 5, "utterances": 8}),
    },
)  # fmt: skip
