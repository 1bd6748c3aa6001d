"""Values of actions by a dueling double network: fetch a key in a small grid, then open the door.

The agent starts anywhere; a step costs a little, the door gives one when the key was fetched. Moves
come from a memory of what was tried. The skill is the return of greedy moves, between that of
random moves and that of the shortest ways.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, MOVES, LIMIT, DISCOUNT = 5, 4, 40, 0.92
KEY, DOOR = (0, 4), (4, 1)
STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))
State = tuple[int, int, int]
Move = tuple[int, int, float, int, float]


def number(state: State) -> int:
    return (state[0] * SIDE + state[1]) * 2 + state[2]


def moved(state: State, move: int) -> tuple[State, float, bool]:
    x = min(max(state[0] + STEPS[move][0], 0), SIDE - 1)
    y = min(max(state[1] + STEPS[move][1], 0), SIDE - 1)
    key = 1 if (x, y) == KEY else state[2]
    done = bool(key) and (x, y) == DOOR
    return (x, y, key), 1.0 if done else -0.01, done


def played(choose: Callable[[State], int], times: int) -> float:
    """The mean discounted return over starts."""
    total = 0.0
    for at in range(SIDE * SIDE * times):
        state: State = (at % SIDE, at // SIDE % SIDE, 0)
        for step in range(LIMIT):
            state, reward, done = moved(state, choose(state))
            total += DISCOUNT**step * reward
            if done:
                break
    return total / (SIDE * SIDE * times)


def towards(state: State) -> int:
    """The move of one who knows the way."""
    x, y = DOOR if state[2] else KEY
    if x != state[0]:
        return 2 if x > state[0] else 3
    return 0 if y > state[1] else 1


class Dueling(nn.Module):
    def __init__(self, dueling: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 * SIDE + 2, 64), nn.ReLU(), nn.Linear(64, 64))
        self.value, self.gain = nn.Linear(64, 1), nn.Linear(64, MOVES)
        self.dueling = dueling

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x).relu()
        gain: Tensor = self.gain(h)
        if not self.dueling:
            return gain
        value: Tensor = self.value(h)
        return value + gain - gain.mean(1, keepdim=True)


def train(
    seed: int, hook: Any, steps: int = 2500, rate: float = 1e-3, batch: int = 32, loss: str = "",
    optimizer: str = "adam", double: bool = True, dueling: bool = True, every: int = 50,
    soft: float = 0.0, memory: int = 5000, unit: float = 1.0, random_share: float = 0.3,
    clip: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    states = [(x, y, key) for x in range(SIDE) for y in range(SIDE) for key in range(2)]
    places = torch.tensor(states)
    seen = torch.cat([F.one_hot(places[:, at], SIDE) for at in (0, 1)], 1)
    seen = torch.cat([seen, F.one_hot(places[:, 2], 2)], 1).float()
    online, target = Dueling(dueling), Dueling(dueling)
    target.load_state_dict(online.state_dict())
    hook.torch(online)
    trained = target if fault == "optimizer of the target" else online
    kinds: dict[str, Any] = {
        "adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop, "adamw": torch.optim.AdamW,
    }  # fmt: skip
    updates = kinds[optimizer](trained.parameters(), rate)
    draw = torch.Generator().manual_seed(seed)
    tried: deque[Move] = deque(maxlen=memory)

    def any_place() -> State:
        x, y = torch.randint(SIDE, (2,), generator=draw).tolist()
        return x, y, 0

    state, age = any_place(), 0
    for step in range(steps):
        with torch.no_grad():
            values = online(seen)
        share = max(random_share, 1 - step / (0.3 * steps))
        if fault == "never explores":
            share = 0.0
        for _ in range(4):
            move = int(values[number(state)].argmax())
            if float(torch.rand((), generator=draw)) < share:
                move = int(torch.randint(MOVES, (), generator=draw))
            after, reward, done = moved(state, move)
            kept = after if fault == "state changed in place" else state
            tried.append((number(kept), move, unit * reward, number(after), float(done)))
            age += 1
            state, age = (any_place(), 0) if done or age == LIMIT else (after, age)
        rows = torch.randint(len(tried), (batch,), generator=draw).tolist()
        chosen = torch.tensor([tried[row] for row in rows])
        before, moves, after_rows = (chosen[:, at].long() for at in (0, 1, 3))
        rewards, going_on = chosen[:, 2:3], 1 - chosen[:, 4:5]
        with torch.no_grad():
            ahead = target(seen[after_rows])
            best = (online(seen[after_rows]) if double else ahead).argmax(1, keepdim=True)
            if fault == "worst move ahead":
                best = ahead.argmin(1, keepdim=True)
            wanted = rewards + DISCOUNT * going_on * ahead.gather(1, best)
        found = online(seen[before]).gather(1, moves[:, None])
        if fault == "shapes":
            wanted = wanted.squeeze(1)
        error = F.mse_loss(found, wanted) if loss == "squared" else F.smooth_l1_loss(found, wanted)
        if fault != "gradients kept":
            updates.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(online.parameters(), clip)
        updates.step()
        if soft:
            for old, new in zip(target.parameters(), online.parameters(), strict=True):
                old.data.lerp_(new.data, soft)
        elif step % every == 0 and fault != "target never renewed":
            target.load_state_dict(online.state_dict())
    online.eval()
    with torch.no_grad():
        values = online(seen)
    if not bool(torch.isfinite(values).all()):
        return float("nan")
    lowest = played(lambda _: int(torch.randint(MOVES, (), generator=draw)), 8)
    return (played(lambda at: int(values[number(at)].argmax()), 1) - lowest) / (
        played(towards, 1) - lowest
    )


CASES = cases(
    "key grid",
    train,
    {
        "plain": {},
        "neither dueling nor double": {"dueling": False, "double": False},
        "target follows softly": {"soft": 0.03},
        "squared error, clipped": {"loss": "squared", "clip": 1.0},
        "rewards of a hundred": {"unit": 100.0, "rate": 3e-3},
        "large batch": {"batch": 128, "optimizer": "adamw"},
        "always random moves": {"random_share": 1.0},
    },
    {
        "shapes of values": ("broadcast no-skill collapse", {"fault": "shapes"}),
        "optimizer of the target": ("unbound no-skill", {"fault": "optimizer of the target"}),
        "target never renewed": ("no-skill slow", {"fault": "target never renewed"}),
        "never explores": ("no-skill collapse", {"fault": "never explores"}),
        "state changed in place": ("inputs no-skill", {"fault": "state changed in place"}),
        "worst move ahead": ("no-skill", {"fault": "worst move ahead"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept", "rate": 3e-3}),
    },
)
