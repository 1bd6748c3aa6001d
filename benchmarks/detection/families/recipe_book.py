"""Recipes a cook will save, by neural collaborative filtering: factors and a perceptron together.

Each saved recipe is a positive, and each epoch draws other negatives. The skill is twice the area
under the ROC curve, less one, of recipes saved later against those never saved.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, optimizer_of, ranking_skill, scheduler_of
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from benchmarks.detection.case import cases

COOKS, RECIPES, SAVED, LATER, TASTES = 250, 150, 24, 4, 4


def books(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of cook and recipe, (N, 2): saved at first, and saved later."""
    draw = np.random.default_rng(seed)
    cook, recipe = draw.normal(size=(COOKS, TASTES)), draw.normal(size=(RECIPES, TASTES))
    recipe /= np.linalg.norm(recipe, axis=1, keepdims=True)
    liking = 6 * cook @ recipe.T / np.linalg.norm(cook, axis=1, keepdims=True)
    liking = liking + 0.2 * draw.normal(size=RECIPES) + 0.7 * draw.gumbel(size=liking.shape)
    best = np.argsort(-liking, axis=1)[:, : SAVED + LATER]
    best = draw.permuted(best, axis=1)
    owner = np.arange(COOKS)[:, None]
    first, later = (
        np.stack(np.broadcast_arrays(owner, part), -1).reshape(-1, 2)
        for part in (best[:, :SAVED], best[:, SAVED:])
    )
    return first, later


class NCFData(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Pairs that were saved, and for each as many others as asked."""

    def __init__(self, pairs: np.ndarray, num_ng: int, fault: str = "") -> None:
        self.pairs, self.num_ng, self.fault = pairs, num_ng, fault
        self.known = np.zeros((COOKS, RECIPES), dtype=bool)
        self.known[pairs[:, 0], pairs[:, 1]] = True
        self.ng_sample()

    def ng_sample(self) -> None:
        cook = np.repeat(self.pairs[:, 0], self.num_ng)
        other = np.random.randint(RECIPES, size=len(cook))
        while (again := self.known[cook, other]).any():
            other[again] = np.random.randint(RECIPES, size=int(again.sum()))
        features = np.concatenate([self.pairs, np.stack([cook, other], 1)])
        labels = np.concatenate([np.ones(len(self.pairs)), np.zeros(len(cook))])
        if self.fault == "labels not in the order of pairs":
            labels = np.random.permutation(labels)
        self.features, self.labels = torch.as_tensor(features), torch.as_tensor(labels).float()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        return self.features[rows, 0], self.features[rows, 1], self.labels[rows]


class NCF(nn.Module):
    def __init__(self, factors: int, dropout: float, std: float, last: str) -> None:
        super().__init__()
        self.embed_user_GMF = nn.Embedding(COOKS, factors)
        self.embed_item_GMF = nn.Embedding(RECIPES, factors)
        self.embed_user_MLP = nn.Embedding(COOKS, 2 * factors)
        self.embed_item_MLP = nn.Embedding(RECIPES, 2 * factors)
        self.MLP_layers = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(4 * factors, 2 * factors), nn.ReLU(),
            nn.Dropout(dropout), nn.Linear(2 * factors, factors), nn.ReLU(),
        )  # fmt: skip
        self.predict_layer = nn.Linear(2 * factors, 1)
        self.last = {"": nn.Identity(), "sigmoid": nn.Sigmoid()}[last]
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=std)
            elif isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        product = self.embed_user_GMF(user) * self.embed_item_GMF(item)
        both = torch.cat([self.embed_user_MLP(user), self.embed_item_MLP(item)], -1)
        prediction = self.predict_layer(torch.cat([product, self.MLP_layers(both)], -1))
        scores: Tensor = self.last(prediction)
        return scores.view(-1)


@torch.no_grad()
def hit_and_ndcg(model: NCF, pairs: np.ndarray, known: np.ndarray, top_k: int = 10) -> Any:
    """Of each cook: the places of the later recipes among all that were not saved before."""
    model.eval()
    everything = torch.cartesian_prod(torch.arange(COOKS), torch.arange(RECIPES))
    scores = model(everything[:, 0], everything[:, 1]).view(COOKS, RECIPES)
    scores[torch.as_tensor(known)] = -math.inf
    place = (-scores).argsort(1).argsort(1)[pairs[:, 0], pairs[:, 1]]
    hit = (place < top_k).float()
    return hit.mean(), (hit / torch.log2(place + 2.0)).mean()


def train(
    seed: int, hook: Any, epochs: int = 18, batch: int = 256, lr: float = 3e-3, num_ng: int = 4,
    schedule: str = "constant", factors: int = 8,
    dropout: float = 0.0, std: float = 0.1, positive: float = 1.0, summed: bool = False,
    smooth: float = 0.0, evaluated: bool = True, last: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    np.random.seed(seed)
    pairs, later = books(seed + 4300)
    dataset = NCFData(pairs, num_ng, fault)
    sampler = BatchSampler(RandomSampler(dataset), batch, drop_last=False)
    loader = DataLoader(dataset, sampler=sampler, batch_size=None)
    model = NCF(factors, dropout, std, last)
    loss_function = nn.BCEWithLogitsLoss(
        pos_weight=torch.tensor(positive), reduction="sum" if summed else "mean"
    )
    parameters = list(model.parameters())
    if fault == "tables left out":
        parameters = [*model.MLP_layers.parameters(), *model.predict_layer.parameters()]
    steering = optimizer_of("adam", parameters, lr)
    scheduler = scheduler_of(steering, schedule, epochs * len(loader))
    hook.torch(model)

    for _ in range(epochs):
        model.train()
        dataset.ng_sample()
        for user, item, label in loader:
            if fault != "gradients kept":
                model.zero_grad()
            prediction = model(user, item)
            if fault == "square of a column":
                loss = nn.functional.mse_loss(prediction[:, None].sigmoid(), label)
            else:
                loss = loss_function(prediction, label * (1 - smooth) + smooth / 2)
            loss.backward()
            steering.step()
            scheduler.step()
        if evaluated:
            hit_and_ndcg(model, later, dataset.known)

    model.eval()
    with torch.no_grad():
        everything = torch.cartesian_prod(torch.arange(COOKS), torch.arange(RECIPES))
        scores = model(everything[:, 0], everything[:, 1])
    wanted = torch.zeros(COOKS, RECIPES)
    wanted[later[:, 0], later[:, 1]] = 1
    asked = torch.as_tensor(~dataset.known).view(-1)
    return ranking_skill(scores[asked], wanted.view(-1)[asked])


CASES = cases(
    "recipe book",
    train,
    {
        "plain": {},
        "one negative for each": {"num_ng": 1, "epochs": 36},
        "sum of the losses": {"summed": True},
        "positives count four times": {"positive": 4.0},
        "small start, dropout": {"std": 0.01, "dropout": 0.1, "epochs": 20},
        "one cycle, no evaluation": {"schedule": "one cycle", "lr": 6e-3, "evaluated": False},
        "smooth labels": {"smooth": 0.1},
    },
    {
        "labels not in the order of pairs": (
            "no-skill", {"fault": "labels not in the order of pairs"},
        ),
        "sigmoid in the model too": ("probabilities", {"last": "sigmoid"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "square of a column": ("broadcast no-skill", {"fault": "square of a column"}),
        "tables left out": ("unbound", {"fault": "tables left out"}),
        "rate of 1": ("fast no-skill dead", {"lr": 1.0}),
    },
)  # fmt: skip
