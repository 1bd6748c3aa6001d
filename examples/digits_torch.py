"""Train a small convolutional network on scikit-learn's handwritten digits with PyTorch.

The defaults train well. Each fault is one that real trainings have:

    python examples/digits_torch.py --out runs/healthy
    python examples/digits_torch.py --out runs/exploding --fault exploding
    python examples/digits_torch.py --out runs/dead-relu --fault dead-relu
    python examples/digits_torch.py --out runs/frozen --fault frozen

With ``--checkpoint FILE`` it goes on from there, in the same run: a stop request (``STOP.json``
in the run, or SIGTERM) ends the training after the step in hand, with a checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from tocsin_hooks import modes
from tocsin_hooks.torch import TorchHook
from torch import Tensor, nn

FAULTS = {
    "exploding": "updates with the wrong sign: they climb the loss until it overflows",
    "dead-relu": "biases so low that hardly any input lifts a hidden unit above zero",
    "frozen": "a new last layer whose parameters the optimizer does not have",
}


class Network(nn.Module):
    """Images (n, 1, 8, 8) to scores (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.relu2 = nn.ReLU()
        self.flatten = nn.Flatten()
        self.hidden = nn.Linear(32 * 4 * 4, 64)
        self.relu3 = nn.ReLU()
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        seen = self.relu2(self.conv2(self.relu1(self.conv1(images))))
        scores: Tensor = self.head(self.relu3(self.hidden(self.flatten(seen))))
        return scores


def digits(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (n, 1, 8, 8) from 0 to 1 and labels (n,): four fifths to train, one to test."""
    images, labels = map(torch.as_tensor, load_digits(return_X_y=True))
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    images = (images[order].float() / 16).reshape(-1, 1, 8, 8)
    split = len(images) * 4 // 5
    return images[:split], labels[order][:split], images[split:], labels[order][split:]


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    images, labels, test_images, test_labels = digits(args.seed)
    model, criterion = Network(), nn.CrossEntropyLoss()
    if args.fault == "dead-relu":
        nn.init.constant_(model.hidden.bias, -20.0)
    climbs = args.fault == "exploding"
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, maximize=climbs)
    if args.fault == "frozen":
        model.head = nn.Linear(64, 10)

    begun, position = 0, None
    if args.checkpoint and args.checkpoint.exists():
        state = torch.load(args.checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begun, position = state["steps"], state["tocsin"]

    hook = TorchHook.attach(
        model,
        args.out,
        watch=args.watch,
        save_interval={modes.TRAIN: args.save_interval, modes.EVAL: 1},
        resumed_from=position,
        poll_interval=args.poll_interval,
    )
    hook.stop_on_sigterm()

    done = begun
    for step in range(begun, args.steps):
        batch = torch.randint(len(images), (args.batch_size,))
        optimizer.zero_grad()
        loss = criterion(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        done = step + 1

        if done % args.eval_interval == 0 or done == args.steps:
            model.eval()
            with torch.no_grad():
                scores = model(test_images)
                test_loss = criterion(scores, test_labels)
                accuracy = (scores.argmax(dim=1) == test_labels).float().mean()
                hook.save("accuracy", accuracy, "metrics")
            model.train()
            print(
                f"step {done}: loss {loss:.4g}, test loss {test_loss:.4g}, "
                f"test accuracy {accuracy:.1%}",
                flush=True,
            )
        if hook.should_stop:
            print(f"stop requested after step {step}", flush=True)
            break

    if args.checkpoint:
        _save(
            args.checkpoint,
            model=model.state_dict(),
            optimizer=optimizer.state_dict(),
            steps=done,
            tocsin=hook.position,
        )
    hook.close()


def _save(path: Path, **state: object) -> None:
    """Write a checkpoint, whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    torch.save(state, temporary)
    temporary.replace(path)


def arguments() -> argparse.Namespace:
    faults = "\n".join(f"  {name}: {what}" for name, what in FAULTS.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\nfaults:\n{faults}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--out", required=True, help="where the run goes: a folder or s3://bucket/prefix")
    add("--fault", choices=sorted(FAULTS), help="what goes wrong; by default nothing")
    add("--steps", type=int, default=300)
    add("--seed", type=int, default=0)
    add("--batch-size", type=int, default=64)
    add("--watch", help="a watch file, for what to capture and which rules to evaluate")
    add("--save-interval", type=int, default=10, help="capture every N training steps")
    add("--eval-interval", type=int, default=25, help="test every N training steps")
    add("--checkpoint", type=Path, help="written at the end, and gone on from if it is there")
    add("--poll-interval", type=float, default=5.0, help="seconds between looks for STOP.json")
    return parser.parse_args()


if __name__ == "__main__":
    train(arguments())
