"""Short tours through eight places, by an attention model that REINFORCE trains (Kool's way).

The model chooses the next place step by step; tours are drawn from it, and their length beside a
baseline says how likely they shall become. The skill of the greedy tours on new maps is 1 for the
shortest tours, and 0 for those in a random order.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

PLACES, WIDTH = 8, 32


def maps(count: int, draw: torch.Generator | None, clustered: bool = False) -> Tensor:
    """(count, PLACES, 2) in the unit square."""
    if not clustered:
        return torch.rand(count, PLACES, 2, generator=draw)
    towns = torch.rand(count, 3, 2, generator=draw)
    of = torch.randint(3, (count, PLACES), generator=draw)
    near = 0.12 * torch.randn(count, PLACES, 2, generator=draw)
    return (towns.gather(1, of[..., None].expand(-1, -1, 2)) + near).clamp(0, 1)


def length(places: Tensor, order: Tensor) -> Tensor:
    visited = places.gather(1, order[..., None].expand(-1, -1, 2))
    return (visited - visited.roll(-1, 1)).norm(dim=-1).sum(1)


def shortest(places: Tensor) -> Tensor:
    """By trying all of them."""
    orders = torch.tensor([(0, *rest) for rest in itertools.permutations(range(1, PLACES))])
    between = torch.cdist(places, places)
    return torch.stack([d[orders, orders.roll(-1, 1)].sum(1).min() for d in between])


class Traveller(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(2, WIDTH)
        self.look = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.key, self.asked = nn.Linear(WIDTH, WIDTH), nn.Linear(3 * WIDTH, WIDTH)
        self.choose = nn.Linear(2, 1)

    def forward(self, places: Tensor, greedy: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """An order (N, places), the logarithm of its probability, and the entropy on the way."""
        h = self.enter(places - 0.5)
        h = h + self.look(h, h, h, need_weights=False)[0]
        h = self.norm(h + self.feed(h))
        keys, whole = self.key(h), h.mean(1)
        count, many = places.shape[:2]
        rows = torch.arange(count)
        order = [torch.zeros(count, dtype=torch.long)]
        visited = F.one_hot(order[0], many).bool()
        likely, entropy = torch.zeros(count), torch.zeros(count)
        between = torch.cdist(places, places)
        for _ in range(many - 1):
            asked = self.asked(torch.cat([whole, h[rows, 0], h[rows, order[-1]]], 1))
            fit = (keys @ asked[..., None]).squeeze(-1) / math.sqrt(WIDTH)
            fit = self.choose(torch.stack([fit, between[rows, order[-1]]], -1)).squeeze(-1)
            log = (10 * fit.tanh()).masked_fill(visited, -1e9).log_softmax(1)
            at = log.argmax(1) if greedy else log.exp().multinomial(1).squeeze(1)
            likely = likely + log[rows, at]
            entropy = entropy - (log.exp() * log).sum(1)
            order.append(at)
            visited = visited | F.one_hot(at, many).bool()
        return torch.stack(order, 1), likely, entropy


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.value = nn.Linear(64, 1)

    def forward(self, places: Tensor) -> Tensor:
        return self.value(self.each(places).mean(1)).squeeze(1) + 4


def train(
    seed: int, hook: Any, baseline: str = "samples", rate: float = 2e-3, steps: int = 1000,
    batch: int = 32, clustered: bool = False, bonus: float = 0.0, scaled: bool = False,
    fixed: int = 0, changing: bool = False,
    clip: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    net = Traveller()
    hook.torch(net)
    critic, frozen = Critic(), copy.deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), rate)
    critic_optimizer = torch.optim.Adam(critic.parameters(), 2e-3)
    draw = torch.Generator().manual_seed(seed + 200)
    kept, held = maps(fixed, draw, clustered), maps(200, draw, clustered)
    test = maps(200, draw, clustered)
    average: Tensor | None = None
    for step in range(steps):
        places = maps(batch, None, clustered)
        if fixed:
            places = kept[torch.randint(fixed, (batch,))]
            places = places.flip(-1) if step % 2 else places
        if changing:
            places = places[:, : int(torch.randint(5, PLACES + 1, ()))]
        if baseline == "samples":
            places = places[: batch // 4].repeat_interleave(4, 0)
        order, likely, entropy = net(places)
        cost = length(places, order)
        if baseline == "samples":
            expected = cost.view(-1, 4).mean(1).repeat_interleave(4)
        elif baseline == "average":
            average = cost.mean() if average is None else 0.9 * average + 0.1 * cost.mean()
            expected = average.expand_as(cost)
        elif baseline == "critic":
            value = critic(places)
            error = F.mse_loss(value, cost)
            critic_optimizer.zero_grad()
            error.backward()
            critic_optimizer.step()
            expected = value.detach()
        else:
            with torch.no_grad():
                expected = length(places, frozen(places, greedy=True)[0])
        advantage = cost - expected
        if scaled:
            advantage = advantage / (advantage.std() + 1e-6)
        if fault == "longer is better":
            advantage = -advantage
        loss = (advantage * likely).mean() - bonus * (1 - step / steps) * entropy.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        if step % 100 == 99:
            net.eval()
            with torch.no_grad():
                length(held, net(held, greedy=True)[0]).mean()
            net.train()
            frozen.load_state_dict(net.state_dict())
    net.eval()
    with torch.no_grad():
        found = length(test, net(test, greedy=True)[0]).mean()
    random = length(test, torch.rand(1, PLACES).argsort(1).expand(len(test), -1)).mean()
    return float((random - found) / (random - shortest(test).mean()))


CASES = cases(
    "short tours",
    train,
    {
        "plain": {},
        "moving average": {"baseline": "average", "rate": 1e-3},
        "critic": {"baseline": "critic"},
        "greedy tours of a frozen copy": {"baseline": "frozen"},
        "bonus for entropy": {"bonus": 0.02},
        "places in clusters": {"clustered": True},
        "advantages scaled": {"scaled": True},
        "maps kept": {"fixed": 512},
        "maps of five to eight": {"changing": True},
    },
    {
        "longer is better": ("worse no-skill", {"fault": "longer is better"}),
    },
)
