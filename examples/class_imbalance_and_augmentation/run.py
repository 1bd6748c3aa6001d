"""Find out from captured tensors why a network reads nines as sixes, and see that it is fixed.

Three faults are in the data of a training: it has few nines, its augmentation turns digits upside
down, which makes a nine of a six, and makes them brighter after they were normalised. Rules name
all three. Saliency maps (gradient × input) show what the network takes for a six. The same rules
are silent when nines are drawn as often as the others, and digits are shifted instead of turned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tocsin import Trial, create_trial, modes
from tocsin.evaluation import check, document
from tocsin.tensors import open_storage
from tocsin.watch import read_watch
from tocsin_hooks.torch import TorchHook
from torch import Tensor, nn

from examples.digits_torch import Network, digits
from examples.shown import Shown
from examples.tiles import tiles

WATCH = Path(__file__).with_name("watch.yaml")
RARE, TURNED = 9, 6  # a turned six looks like a nine
EVERY = 20  # training steps between two evaluations


def faulty(images: Tensor) -> Tensor:
    """Turns half of the images upside down, and makes all of them brighter."""
    turned = torch.rand(len(images)) < 0.5
    images = torch.where(turned[:, None, None, None], images.flip(2, 3), images)
    return images + torch.rand(len(images), 1, 1, 1)


def fixed(images: Tensor) -> Tensor:
    """Shifts the images by up to a pixel."""
    across, down = torch.randint(-1, 2, (2,)).tolist()
    return images.roll((down, across), (2, 3))


def train(out: Path, steps: int, *, fix: bool) -> None:
    torch.manual_seed(0)
    images, labels, test_images, test_labels = digits(0)
    kept = (labels != RARE) | (torch.arange(len(labels)) % 15 == 0)  # a nine in 15
    images, labels = images[kept], labels[kept]
    mean, deviation = images.mean(), images.std()
    images, test_images = (images - mean) / deviation, (test_images - mean) / deviation
    chances = 1 / labels.bincount()[labels] if fix else torch.ones(len(labels))
    augment = fixed if fix else faulty

    model, criterion = Network(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    intervals = {modes.TRAIN: 5, modes.EVAL: 1}
    hook = TorchHook.attach(model, out, watch=WATCH, save_interval=intervals)
    for step in range(1, steps + 1):
        batch = chances.multinomial(64, replacement=True)
        optimizer.zero_grad()
        criterion(model(augment(images[batch])), labels[batch]).backward()
        optimizer.step()
        if step % EVERY == 0:
            model.eval()
            shown = test_images.clone().requires_grad_()
            scores = model(shown)
            criterion(scores, test_labels)
            (gradient,) = torch.autograd.grad(scores.amax(dim=1).sum(), shown)
            hook.save("saliency/gradient", gradient, "saliency")
            model.train()
    hook.close()


def fired(run: Path) -> dict[str, str]:
    """Return what each rule found; "silent" for one that did not fire."""
    found = document(check(open_storage(run), read_watch(WATCH))[0])
    return {
        each["Rule"]: each["StatusDetails"]
        if each["RuleEvaluationStatus"] == "IssuesFound"
        else "silent"
        for each in found["rules"]
    }


def last_batch(trial: Trial, mode: modes) -> dict[str, Any]:
    """Images, labels and guesses of the last step of a mode; saliency maps of an evaluation."""
    step = trial.steps(mode)[-1]

    def value(name: str) -> Any:
        return trial.tensor(name).value(step, mode=mode)

    images, labels = value("Network_input_0"), value("CrossEntropyLoss_input_1")
    found = {"images": images[:, 0] - images.min(axis=(1, 2, 3))[:, None, None], "labels": labels}
    if mode is modes.EVAL:
        found["guesses"] = value("CrossEntropyLoss_input_0").argmax(axis=1)
        found["maps"] = (images * value("saliency/gradient"))[:, 0]
    return found


def run(out: Path, *, small: bool = False) -> Shown:
    """Trains with the faults and without them. The small form has fewer steps."""
    runs = {name: out / name for name in ("before", "after")}
    for name, place in runs.items():
        train(place, 300 if small else 400, fix=name == "after")
    trials = [create_trial(str(place)) for place in runs.values()]
    before, after = (last_batch(trial, modes.EVAL) for trial in trials)
    trained = last_batch(trials[0], modes.TRAIN)
    nines = before["labels"] == RARE
    misread = np.flatnonzero(nines & (before["guesses"] == TURNED) & (after["guesses"] == RARE))
    figures = {
        f"{name} the fix: {rule}": text
        for name, place in runs.items()
        for rule, text in fired(place).items()
    }
    for name, found in (("before", before), ("after", after)):
        right = found["labels"] == found["guesses"]
        figures[f"{name} the fix: accuracy"] = (
            f"{right.mean():.1%}, of nines {right[nines].mean():.1%}"
        )
    figures["misread as sixes, and right after it"] = f"{len(misread)} of {nines.sum()} nines"
    rows = {
        "trained on as a six": trained["images"][trained["labels"] == TURNED][:6],
        "nines of the test": before["images"][misread[:6]],
        "before: why a six": before["maps"][misread[:6]],
        "after: why a nine": after["maps"][misread[:6]],
    }
    title = "What speaks for the digit that was read (orange) and against it (blue)"
    return Shown(figures, tiles(title, rows, signed=[*rows][2:]))
