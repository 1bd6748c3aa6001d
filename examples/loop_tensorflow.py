"""A training loop of one's own in TensorFlow, on scikit-learn's digits, watched by Tocsin.

The step is a ``tf.function`` that gives back what is to be seen: the loss, the gradients and what
the ReLUs answered:

    python examples/loop_tensorflow.py --out runs/healthy
    python examples/loop_tensorflow.py --out runs/dead --fault dead-relu
    python examples/loop_tensorflow.py --out runs/diverging --fault learning-rate

With ``dead-relu`` the biases of the first layer begin so far below zero that no unit ever answers.
With ``learning-rate`` the steps are so long that the loss grows instead of falling.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
from sklearn.datasets import load_digits
from tocsin_hooks import Hook, modes

os.environ["KERAS_BACKEND"] = "tensorflow"  # before Keras is imported
import keras
import tensorflow as tf


def network(fault: str) -> keras.Model:
    """Gives the outputs of all its layers, the last being the logits."""
    bias = keras.initializers.Constant(-10.0 if fault == "dead-relu" else 0.0)
    pixels = keras.Input((64,))
    first = keras.layers.Dense(64, "relu", bias_initializer=bias, name="first")(pixels)
    second = keras.layers.Dense(32, "relu", name="second")(first)
    return keras.Model(pixels, [first, second, keras.layers.Dense(10, name="digit")(second)])


def train(args: argparse.Namespace) -> None:
    keras.utils.set_random_seed(args.seed)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    random = np.random.default_rng(args.seed)
    training, test = np.split(random.permutation(len(images)), [len(images) * 4 // 5])

    model = network(args.fault)
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(300.0 if args.fault == "learning-rate" else 0.3)
    optimizer.build(model.trainable_variables)

    @tf.function
    def descend(images, labels):
        with tf.GradientTape() as tape:
            *answers, logits = model(images, training=True)
            loss = criterion(labels, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients)
        return loss, gradients, answers

    hook = Hook(
        args.out,
        watch=args.watch,
        save_interval={modes.TRAIN: args.save_interval, modes.EVAL: 1},
        max_overhead=args.max_overhead,
    )
    for step in range(args.steps):
        batch = random.choice(training, 64)
        with hook.step(modes.TRAIN):
            loss, gradients, answers = descend(images[batch], labels[batch])
            if hook.saving:  # only then does anything wait for the device
                hook.save("loss", loss, "losses")
                hook.save("learning_rate", optimizer.learning_rate, "learning_rates")
                for name, answer in zip(("first", "second"), answers, strict=True):
                    hook.save(f"{name}/relu_output", answer, "activation_outputs", kind="relu")
                for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
                    collection = "biases" if variable.name == "bias" else "weights"
                    hook.save(variable.path, variable, collection)
                    hook.save(f"gradient/{variable.path}", gradient, "gradients")
        if (step + 1) % 50 == 0 or step + 1 == args.steps:
            logits = model(images[test])[-1]
            accuracy = np.mean(np.argmax(logits, axis=1) == labels[test])
            with hook.step(modes.EVAL):
                hook.save("loss", criterion(labels[test], logits), "losses")
                hook.save("accuracy", accuracy, "metrics")
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
    add("--fault", choices=["none", "dead-relu", "learning-rate"], default="none")
    add("--seed", type=int, default=0)
    add("--save-interval", type=int, default=10, help="capture every N training steps")
    add("--max-overhead", type=float, help="share of the time that capturing may take")
    return parser.parse_args()


if __name__ == "__main__":
    train(arguments())
