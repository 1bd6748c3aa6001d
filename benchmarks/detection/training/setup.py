"""How one training is done: all that it depends on, as a value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Optimizers = Literal["sgd", "momentum", "adam"]
Schedule = Literal["constant", "warmup", "cosine", "restarts"]
Start = Literal["", "zero", "constant", "huge", "tiny"]
Objective = Literal["", "sum", "softmax twice", "softmax of one"]
Missing = Literal["", "input", "label"]
Workers = Literal["", "own start", "own gradients", "stale"]


@dataclass(frozen=True)
class Effects:
    """What goes wrong in a training as no sound one has it. The defaults do nothing.

    update, inputs: factors of every update, and of the scaled inputs.
    start: the weights at the beginning: all zero, all the same, 30 times or a thousandth of what
        they should be; ``gain`` is a factor of one's own on those whose name has ``gain_of`` in
        it, and ``bias`` is added to the biases of all layers but the last.
    left_out: the optimiser was given the last layer only.
    stops_at: the share of the training after which the learning rate is zero.
    samples: so many are trained on.
    imbalance: every class but the first is thinned out by this factor, in what is trained and
        evaluated on.
    workers: the second worker starts from weights of its own, applies its own gradients, or keeps
        the weights that it has at first.
    """

    update: float = 1.0
    inputs: float = 1.0
    raw_inputs: bool = False
    raw_targets: bool = False
    start: Start = ""
    gain: float = 1.0
    gain_of: str = "weight"
    bias: float = 0.0
    objective: Objective = ""
    keeps_gradients: bool = False
    left_out: bool = False
    stops_at: float = 1.0
    samples: int | None = None
    shuffled_labels: bool = False
    sorted: bool = False
    missing: Missing = ""
    imbalance: int = 1
    leak: bool = False
    workers: Workers = ""


@dataclass(frozen=True)
class Setup:
    """One training.

    ``family`` is the model, ``data`` the data set, ``recipe`` the name of the way in which it is
    trained, ``fault`` that of what ``effects`` does to it. Of ``steps`` every ``save_interval``-th
    is saved, and after every ``eval_saves``-th of those comes an evaluation. ``frozen`` layers
    from the first on keep the weights that they have after ``pretraining`` steps; ``accumulate``
    batches make one update; with ``rounded`` the weights have bfloat16's 8 bits. ``width`` and
    ``layers`` are those of the hidden layers, ``depth`` that of boosted trees.
    """

    family: str
    data: str
    seed: int
    recipe: str = "plain"
    fault: str = ""
    optimizer: Optimizers = "momentum"
    learning_rate: float = 0.05
    schedule: Schedule = "constant"
    batch_size: int = 32
    accumulate: int = 1
    steps: int = 300
    save_interval: int = 5
    eval_saves: int = 4
    weight_decay: float = 1e-4
    dropout: float = 0.0
    clip: float | None = None
    label_noise: float = 0.0
    frozen: int = 0
    pretraining: int = 0
    rounded: bool = False
    workers: int = 1
    width: int = 32
    layers: int = 2
    depth: int = 3
    effects: Effects = field(default_factory=Effects)

    @property
    def name(self) -> str:
        """Unique among the runs of the benchmark, and a folder's name."""
        words = f"{self.family} {self.data} {self.fault or self.recipe} {self.seed}"
        return re.sub(r"[^a-z0-9]+", "-", words.lower())
