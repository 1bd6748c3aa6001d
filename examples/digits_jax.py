"""Train a small network on scikit-learn's handwritten digits in plain JAX, watched by Tocsin.

The step is compiled as a whole and gives back its gradients, so that the hook gets them:

    python examples/digits_jax.py --out runs/healthy
    python examples/digits_jax.py --out runs/vanishing --fault vanishing
    python examples/digits_jax.py --out runs/diverging --fault learning-rate

With ``vanishing`` there are ten sigmoid layers, which leave next to nothing of the gradient for the
first ones. With ``learning-rate`` the steps are so long that the loss grows instead of falling.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from tocsin_hooks import modes
from tocsin_hooks.jax import JaxHook

Parameters = list[dict[str, jax.Array]]


def initial(key: jax.Array, sizes: list[int], gain: float) -> Parameters:
    """Normal weights with a variance of ``gain`` over the number of inputs, and no biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {
            "weight": jax.random.normal(key, (inputs, outputs)) * jnp.sqrt(gain / inputs),
            "bias": jnp.zeros(outputs),
        }
        for key, inputs, outputs in zip(keys, sizes, sizes[1:], strict=False)
    ]


def loss_of(
    parameters: Parameters,
    images: jax.Array,
    labels: jax.Array,
    activation: Callable[[jax.Array], jax.Array],
) -> tuple[jax.Array, jax.Array]:
    """The mean cross entropy, and the accuracy."""
    *hidden, last = parameters
    for layer in hidden:
        images = activation(images @ layer["weight"] + layer["bias"])
    logits = images @ last["weight"] + last["bias"]
    chances = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -chances.mean(), (logits.argmax(axis=1) == labels).mean()


@partial(jax.jit, static_argnames="activation")
def descend(
    parameters: Parameters,
    images: jax.Array,
    labels: jax.Array,
    rate: float,
    activation: Callable[[jax.Array], jax.Array],
) -> tuple[Parameters, jax.Array, Parameters]:
    """One step: the new parameters, and the loss and the gradients that led to them."""
    (loss, _), gradients = jax.value_and_grad(loss_of, has_aux=True)(
        parameters, images, labels, activation
    )
    moved = jax.tree.map(lambda value, slope: value - rate * slope, parameters, gradients)
    return moved, loss, gradients


def train(args: argparse.Namespace) -> None:
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    random = np.random.default_rng(args.seed)
    order = random.permutation(len(images))
    training, test = np.split(order, [len(images) * 4 // 5])
    activation, gain, hidden = jax.nn.relu, 2.0, [64, 64]
    if args.fault == "vanishing":
        activation, gain, hidden = jax.nn.sigmoid, 1.0, [32] * 10
    rate = 300.0 if args.fault == "learning-rate" else 0.3
    parameters = initial(jax.random.key(args.seed), [images.shape[1], *hidden, 10], gain)

    hook = JaxHook(
        args.out,
        args.watch,
        save_interval={modes.TRAIN: args.save_interval, modes.EVAL: 1},
        max_overhead=args.max_overhead,
    )
    for step in range(args.steps):
        batch = random.choice(training, 64)
        parameters, loss, gradients = descend(
            parameters, images[batch], labels[batch], rate, activation
        )
        hook.step(loss, gradients=gradients, params=parameters, learning_rate=rate)
        if (step + 1) % 50 == 0 or step + 1 == args.steps:
            test_loss, accuracy = loss_of(parameters, images[test], labels[test], activation)
            hook.step(test_loss, metrics={"accuracy": accuracy}, mode=modes.EVAL)
            print(f"step {step + 1}: loss {loss:.4g}, test accuracy {accuracy:.1%}", flush=True)
        if hook.should_stop:
            break
    hook.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="where the run goes: a folder or s3://bucket/prefix")
    add("--watch", help="a watch file, for what to capture and which rules to evaluate")
    add("--steps", type=int, default=500)
    add("--fault", choices=["none", "vanishing", "learning-rate"], default="none")
    add("--seed", type=int, default=0)
    add("--save-interval", type=int, default=10, help="capture every N training steps")
    add("--max-overhead", type=float, help="share of the time that capturing may take")
    return parser.parse_args()


if __name__ == "__main__":
    train(arguments())
