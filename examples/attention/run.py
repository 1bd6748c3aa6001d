"""Look into the attention of a transformer while it trains in another process.

``train.py`` trains, and knows nothing of this script. This one opens its run, waits for each
evaluation, and draws what every head looks at and how far the embeddings have moved. Before the
training is over it makes a report of what there is.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tocsin import Trial, create_trial, modes
from tocsin.report import html_of, report_on
from tocsin.tensors import open_storage
from tocsin.trial import NoMoreData
from tocsin.watch import read_watch

from examples.attention.train import EVERY, SHOWN, WATCH, corpus
from examples.shown import Shown
from examples.tiles import tiles

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # s, for the next evaluation
Heads = dict[str, list[NDArray[Any]]]


def start(out: Path, steps: int) -> subprocess.Popen[bytes]:
    """Starts the training in a process of its own."""
    command = [sys.executable, "-m", "examples.attention.train", "--out", str(out.resolve())]
    return subprocess.Popen([*command, "--steps", str(steps)], cwd=ROOT)


def follow(trial: Trial) -> Iterator[int]:
    """Each evaluation as soon as it is there, until the run ends."""
    for evaluation in count():
        try:
            trial.wait_for_steps([evaluation], modes.EVAL, timeout=PATIENCE)
        except NoMoreData:
            return
        yield evaluation


def heads(trial: Trial, evaluation: int) -> Heads:
    """By layer, what each head looks at (columns) for each character of a text (rows)."""
    names = trial.tensor_names(regex="softmax_output_0$")
    return {
        f"layer {layer}, step {1 + evaluation * EVERY}": [
            *trial.tensor(name).value(evaluation, mode=modes.EVAL)[0]
        ]
        for layer, name in enumerate(names, 1)
    }


def drift(trial: Trial) -> NDArray[Any]:
    """Return how far each embedding has moved, as a share of its size: (saves, characters)."""
    values = trial.tensor("Transformer_embedding.weight").values(mode=modes.TRAIN)
    embeddings = np.stack([*values.values()])
    moved = np.linalg.norm(embeddings - embeddings[0], axis=2)
    share: NDArray[Any] = moved / np.linalg.norm(embeddings[0], axis=1)
    return share


def before(head: NDArray[Any]) -> float:
    """The share of its attention that a head gives to the character before."""
    return float(head.diagonal(-1).mean())


def picture(*moments: Heads) -> str:
    """Rows of the same layer below each other."""
    rows = {
        name: row
        for pairs in zip(*(each.items() for each in moments), strict=True)
        for name, row in pairs
    }
    return tiles(f"What heads 1 to 4 look at in “{SHOWN[0][:-1]}”", rows)


def run(out: Path, *, small: bool = False) -> Shown:
    """Follows a training to its end. The small form has fewer steps."""
    place, live, report = out / "run", 0, None
    with start(place, 41 if small else 581):
        trial = create_trial(place, timeout=PATIENCE)
        for evaluation in follow(trial):
            live += not trial.loaded_all_steps
            if evaluation == 1:
                report = report_on(open_storage(place), read_watch(WATCH))
                (out / "report.html").write_text(html_of(report), "utf-8")
    loss = trial.tensor("loss").values(mode=modes.EVAL)
    first, last = heads(trial, 0), heads(trial, evaluation)
    local = {
        f"{layer.partition(',')[0]}, head {at}": before(head)
        for layer, row in last.items()
        for at, head in enumerate(row, 1)
    }
    most = max(local, key=lambda name: local[name])
    moved, (_, characters) = drift(trial), corpus()
    furthest = [characters[at] for at in moved[-1].argsort()[::-1] if characters[at].isalpha()]
    state = f"{report.run.state}, up to step {report.run.steps.last}" if report else "none"
    figures = {
        "evaluations seen while it trained": f"{live} of {evaluation + 1}",
        "a report made after the second one": state,
        "loss on unknown text": f"{loss[0]:.2f} at first, {loss[evaluation]:.2f} in the end",
        "looks most at the character before": f"{most}: {local[most]:.0%} of its attention",
        "embeddings have moved by": f"{moved[-1].mean():.0%} of their size",
        "letters that have moved furthest": " ".join(furthest[:6]),
    }
    return Shown(figures, picture(first, last))
