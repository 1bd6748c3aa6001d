"""Train a small network on scikit-learn's handwritten digits, in plain numpy, watched by Tocsin.

The defaults train well. Two changes make it go wrong, as networks really do:

    python examples/digits_numpy.py --out runs/healthy
    python examples/digits_numpy.py --out runs/diverging --fault diverging
    python examples/digits_numpy.py --out runs/vanishing --fault vanishing
    python examples/digits_numpy.py --out runs/slow --fault slow-loader --watch machine.yaml
    python examples/digits_numpy.py --out runs/hang --fault hang --watch machine.yaml

In the second the learning rate, while it warms up, passes what the network can bear. In the third
ten sigmoid layers leave next to nothing of the gradient for the first ones. The last two show in
the machine run, which the section ``machine`` of a watch file asks for: batches come slowly, and
the training waits for something that never comes. A fault is a set of defaults (``FAULTS``):
whatever is given beside it counts.

With ``--checkpoint-interval`` the weights are also saved while it trains, and the hook notes each
file. A job that Tocsin has started again goes on from the file in ``TOCSIN_CHECKPOINT``.

A stop request (``STOP.json`` in the run, or SIGTERM) ends the training after the step in hand:
the checkpoint is saved, the run is closed and the exit code is 0, as a training service expects.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from tocsin_hooks import Hook, modes

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Activation:
    """A function, its derivative in terms of the function's value, and the variance it needs."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    gain: float


ACTIVATIONS = {
    "relu": Activation(lambda x: np.maximum(x, 0), lambda y: (y > 0).astype(np.float32), 2.0),
    "tanh": Activation(np.tanh, lambda y: 1 - y * y, 1.0),
    "sigmoid": Activation(lambda x: np.reciprocal(1 + np.exp(-x)), lambda y: y * (1 - y), 1.0),
}

FAULTS: dict[str, dict[str, object]] = {
    "diverging": {"learning_rate": 5.0},
    "vanishing": {"activation": "sigmoid", "hidden": [32] * 10},
    "slow-loader": {"loader_seconds": 0.05},
    "hang": {"hang_at": 150},
}


class Network:
    """Fully connected layers with one linear output per class, trained on the squared error."""

    def __init__(self, sizes: list[int], activation: str, random: np.random.Generator) -> None:
        self._activation = ACTIVATIONS[activation]
        gains = [self._activation.gain] * (len(sizes) - 2) + [1.0]
        self.weights = [
            (random.standard_normal((inputs, outputs)) * np.sqrt(gain / inputs)).astype(np.float32)
            for inputs, outputs, gain in zip(sizes, sizes[1:], gains, strict=False)
        ]
        self.biases = [np.zeros(outputs, np.float32) for outputs in sizes[1:]]

    def layers(self, images: Array) -> list[Array]:
        """The values of all layers, from the images to the outputs."""
        values = [images]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values.append(self._activation.value(values[-1] @ weight + bias))
        return [*values, values[-1] @ self.weights[-1] + self.biases[-1]]

    def gradients(self, values: list[Array], wanted: Array) -> tuple[list[Array], list[Array]]:
        """Gradients of the loss with respect to the weights and the biases."""
        weights: list[Array] = []
        biases: list[Array] = []
        error = (values[-1] - wanted) / np.float32(len(wanted))
        for layer in reversed(range(len(self.weights))):
            weights.insert(0, values[layer].T @ error)
            biases.insert(0, error.sum(axis=0))
            error = (error @ self.weights[layer].T) * self._activation.slope(values[layer])
        return weights, biases

    def descend(self, rate: float, weights: list[Array], biases: list[Array]) -> None:
        for parameter, gradient in zip(self.weights + self.biases, weights + biases, strict=True):
            parameter -= np.float32(rate) * gradient

    def save(self, path: Path, step: int, position: Mapping[str, int]) -> None:
        """Write all weights to an .npz file, whole or not at all."""
        arrays = {f"weight{layer}": value for layer, value in enumerate(self.weights)}
        arrays |= {f"bias{layer}": value for layer, value in enumerate(self.biases)}
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("wb") as file:
            np.savez(file, step=step, position=json.dumps(dict(position)), **arrays)
        temporary.replace(path)
        print(f"checkpoint of step {step}: {path}", flush=True)

    def load(self, path: Path) -> tuple[int, dict[str, int]]:
        """Read what ``save`` has written: the number of the last step, and the hook's position."""
        with np.load(path) as saved:
            for layer in range(len(self.weights)):
                self.weights[layer] = saved[f"weight{layer}"]
                self.biases[layer] = saved[f"bias{layer}"]
            return int(saved["step"]), json.loads(str(saved["position"]))


def half_squared_error(outputs: Array, wanted: Array) -> float:
    return float(np.square(outputs - wanted).sum(axis=1).mean() / 2)


def digits(seed: int) -> tuple[Array, Array, Array, Array]:
    """Images (n, 64) from 0 to 1 and one-hot labels (n, 10): four fifths to train, one to test."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    images = (images[order] / 16).astype(np.float32)
    wanted = np.eye(10, dtype=np.float32)[labels[order]]
    split = len(images) * 4 // 5
    return images[:split], wanted[:split], images[split:], wanted[split:]


def train(args: argparse.Namespace) -> None:
    images, wanted, test_images, test_wanted = digits(args.seed)
    network = Network(
        [images.shape[1], *args.hidden, wanted.shape[1]],
        args.activation,
        np.random.default_rng(args.seed),
    )
    # Workers share the initial weights and draw different batches.
    batches = np.random.default_rng([args.seed, *args.worker.encode()])

    done, position = network.load(args.resume) if args.resume else (-1, None)
    hook = Hook(
        args.out,
        watch=args.watch,
        save_interval={modes.TRAIN: args.save_interval, modes.EVAL: 1},
        worker=args.worker,
        num_workers=args.num_workers,
        poll_interval=args.poll_interval,
        planned_steps=args.steps,
        resumed_from=position,
    )
    hook.stop_on_sigterm()

    step = max(done, 0)
    batches_left = load(batches, len(images), args, args.steps - done - 1)
    for step, batch in enumerate(hook.data(batches_left), done + 1):
        started = time.monotonic()
        with hook.step(modes.TRAIN):
            values = network.layers(images[batch])
            loss = half_squared_error(values[-1], wanted[batch])
            weights, biases = network.gradients(values, wanted[batch])
            hook.save("loss", loss, collection="losses")
            for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                hook.save(f"layer{layer}/weight", network.weights[layer], collection="weights")
                hook.save(f"layer{layer}/bias", network.biases[layer], collection="biases")
                hook.save(f"gradient/layer{layer}/weight", weight, collection="gradients")
                hook.save(f"gradient/layer{layer}/bias", bias, collection="gradients")
            rate = args.learning_rate * min(1.0, (step + 1) / max(args.warmup_steps, 1))
            network.descend(rate, weights, biases)

        if (step + 1) % args.eval_interval == 0 or step + 1 == args.steps:
            with hook.step(modes.EVAL):
                outputs = network.layers(test_images)[-1]
                test_loss = half_squared_error(outputs, test_wanted)
                accuracy = float(np.mean(outputs.argmax(axis=1) == test_wanted.argmax(axis=1)))
                hook.save("loss", test_loss, collection="losses")
                hook.save("accuracy", accuracy, collection="metrics")
            print(
                f"step {step + 1}: loss {loss:.4g}, test loss {test_loss:.4g}, "
                f"test accuracy {accuracy:.1%}",
                flush=True,
            )
        if (
            args.checkpoint
            and args.checkpoint_interval
            and (step + 1) % args.checkpoint_interval == 0
        ):
            path = args.checkpoint.with_name(f"step-{step}.npz")
            network.save(path, step, hook.position)
            hook.checkpoint(path)
        while step == args.hang_at and not hook.should_stop:
            time.sleep(0.05)  # what it waits for never comes
        if hook.should_stop:
            print(f"stop requested after step {step}", flush=True)
            break
        if args.seconds_per_step:
            time.sleep(max(0.0, started + args.seconds_per_step - time.monotonic()))

    if args.checkpoint:
        network.save(args.checkpoint, step, hook.position)
    hook.close()


def load(
    random: np.random.Generator, samples: int, args: argparse.Namespace, steps: int
) -> Iterator[NDArray[np.int64]]:
    """The numbers of the samples of each batch."""
    for _ in range(steps):
        if args.loader_seconds:
            time.sleep(args.loader_seconds)
        yield random.integers(0, samples, args.batch_size)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="where the run goes: a folder or s3://bucket/prefix")
    add("--fault", choices=sorted(FAULTS), help="what goes wrong; by default nothing")
    add("--watch", help="a watch file, for what to capture and which rules to evaluate")
    add("--steps", type=int, default=500)
    add("--batch-size", type=int, default=64)
    rate = os.environ.get("SM_HP_LEARNING_RATE", "0.5")  # SageMaker's hyper-parameter, if it is set
    add("--learning-rate", type=float, default=float(rate), help="reached after the warm-up")
    add("--warmup-steps", type=int, default=200, help="the learning rate rises linearly")
    add("--hidden", type=_sizes, default="64,64", help="units of the hidden layers")
    add("--activation", choices=sorted(ACTIVATIONS), default="relu")
    add("--seed", type=int, default=0)
    add("--save-interval", type=int, default=10, help="capture every N training steps")
    add("--eval-interval", type=int, default=50, help="test every N training steps")
    add("--seconds-per-step", type=float, default=0.0, help="no step is shorter than this")
    add("--loader-seconds", type=float, default=0.0, help="how long each batch takes to load")
    add("--hang-at", type=int, help="the step after which the training waits for ever")
    add("--checkpoint", type=Path, help="the weights at the end, as .npz")
    add("--checkpoint-interval", type=int, default=0, help="also save them every N steps")
    resume = os.environ.get("TOCSIN_CHECKPOINT")
    add("--resume", type=Path, default=resume, help="weights to go on from, as .npz")
    add("--poll-interval", type=float, default=5.0, help="seconds between looks for STOP.json")
    add("--worker", default="worker_0", help="name of this worker")
    add("--num-workers", type=int, default=1, help="workers that write to the same run")
    args = parser.parse_args()
    parser.set_defaults(**FAULTS.get(args.fault, {}))
    return parser.parse_args()


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split(",")]


if __name__ == "__main__":
    # A run that diverges is one of the things to be shown: its overflows are not news.
    np.seterr(over="ignore", invalid="ignore")
    train(arguments())
