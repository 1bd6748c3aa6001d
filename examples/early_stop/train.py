"""One trial: fine-tunes a network that reads digits on a hundred mirrored ones.

A training job of SageMaker's: its hyperparameters are in ``SM_HPS``, its run in ``TOCSIN_RUN``, and
SIGTERM ends it after the current step.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

import numpy as np
from tocsin_hooks import Hook, modes

from examples.digits_numpy import Array, Network, digits

SAMPLES = 100  # that it is fine-tuned on
WRONG = 0.15  # of their labels
SAVED, EVALUATED = 5, 10  # steps between two that are captured, and between two evaluations


def softmax(outputs: Array) -> Array:
    raised = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), np.float32)


def cross_entropy(probabilities: Array, wanted: Array) -> float:
    return float(-np.log((probabilities * wanted).sum(axis=1) + 1e-9).mean())


def layers(network: Network, images: Array) -> list[Array]:
    """The values of all layers; those of the last are probabilities."""
    *values, outputs = network.layers(images)
    return [*values, softmax(outputs)]


def pretrained(images: Array, wanted: Array) -> Network:
    """A network that reads digits as they are."""
    network = Network([64, 64, 64, 10], "relu", np.random.default_rng(0))
    random = np.random.default_rng(1)
    for _ in range(1000):
        batch = random.integers(0, len(images), 64)
        network.descend(0.3, *network.gradients(layers(network, images[batch]), wanted[batch]))
    return network


def mirrored(images: Array) -> Array:
    return images.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64)


def mislabelled(wanted: Array, random: np.random.Generator) -> Array:
    wrong = random.random(len(wanted)) < WRONG
    return np.where(wrong[:, None], np.roll(wanted, 3, axis=1), wanted)


def fine_tune(hook: Hook, hyperparameters: Mapping[str, str]) -> None:
    """Trains until the last step, or until a stop is requested."""
    rate, decay = (float(hyperparameters[name]) for name in ("learning_rate", "weight_decay"))
    size, steps = (int(hyperparameters[name]) for name in ("batch_size", "steps"))
    images, wanted, test_images, test_wanted = digits(0)
    network = pretrained(images, wanted)
    random = np.random.default_rng(2)
    images, test_images = mirrored(images[:SAMPLES]), mirrored(test_images)
    wanted = mislabelled(wanted[:SAMPLES], random)
    for step in range(steps):
        started = time.monotonic()
        batch = random.integers(0, SAMPLES, size)
        values = layers(network, images[batch])
        weights, biases = network.gradients(values, wanted[batch])
        with hook.step(modes.TRAIN):
            hook.save("loss", cross_entropy(values[-1], wanted[batch]), "losses")
            hook.save("probabilities", values[-1], "predictions")
            hook.save("digits", wanted[batch].argmax(axis=1), "labels")
            for layer, weight in enumerate(network.weights):
                hook.save(f"layer{layer}/weight", weight, "weights")
        decayed = [each + decay * own for each, own in zip(weights, network.weights, strict=True)]
        network.descend(rate, decayed, biases)
        if step % EVALUATED == 0:
            evaluate(hook, layers(network, test_images)[-1], test_wanted)
        if hook.should_stop:
            return
        time.sleep(max(0.0, started + float(hyperparameters["step_seconds"]) - time.monotonic()))


def evaluate(hook: Hook, probabilities: Array, wanted: Array) -> None:
    hits = probabilities.argmax(axis=1) == wanted.argmax(axis=1)
    with hook.step(modes.EVAL):
        hook.save("loss", cross_entropy(probabilities, wanted), "losses")
        hook.save("accuracy", float(np.mean(hits)), "metrics")


def main() -> None:
    hook = Hook(
        save_interval={modes.TRAIN: SAVED, modes.EVAL: 1}, max_overhead=None, poll_interval=1.0
    )
    hook.stop_on_sigterm()
    with np.errstate(all="ignore"):  # that some trials diverge is what this is about
        fine_tune(hook, json.loads(os.environ["SM_HPS"]))
    hook.close()


if __name__ == "__main__":
    main()
