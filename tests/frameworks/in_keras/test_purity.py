"""Which losses may be called again."""

import functools

import keras
import numpy as np
import pytest
from tocsin_hooks.keras.purity import is_pure

ops = keras.ops
WEIGHTS = np.array([1.0, 2.0], np.float32)
SEEN = []
CALLS = 0
CHANCE = np.random.default_rng(0)


def squares(y, p):
    return ops.mean(ops.square(y - p), axis=-1)


def with_a_constant(y, p, factor=2.0):
    return factor * squares(y, p) * float(WEIGHTS.mean())


def by_classes(y, p):
    parts = [ops.mean(p[y[:, 0] == each]) for each in range(3)]
    return sum(parts) / len(parts)


def made(factor):
    return lambda y, p: factor * squares(y, p)


def counts(y, p):
    global CALLS
    CALLS += 1
    return squares(y, p)


def remembers(y, p):
    SEEN.append(y)
    return squares(y, p)


def draws(y, p):
    return squares(y, p) + CHANCE.normal()


def in_place(y, p):
    p.mul_(2.0)
    return squares(y, p)


def says(y, p):
    print(y.shape)
    return squares(y, p)


def calls_another(y, p):
    return counts(y, p)


def counted():
    calls = 0

    def loss(y, p):
        nonlocal calls
        calls += 1
        return squares(y, p)

    return loss


def moved():
    centre = keras.Variable([1.0])

    def loss(y, p):
        centre.assign(centre + 1)
        return squares(y, p)

    return loss


class Weighted(keras.losses.Loss):
    def __init__(self, factor, keeps=None):
        super().__init__()
        self.factor = factor
        self.keeps = keeps

    def call(self, y, p):
        return self.factor * squares(y, p)


class Averages(Weighted):
    def call(self, y, p):
        return self.scaled(squares(y, p))

    def scaled(self, errors):
        self.factor = 0.9 * self.factor
        return errors / self.factor


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (squares, True),
        (with_a_constant, True),
        (by_classes, True),
        (made(2.0), True),
        (made(WEIGHTS), True),
        (functools.partial(with_a_constant, factor=3.0), True),
        (keras.losses.huber, True),
        (keras.losses.MeanSquaredError(), True),
        (Weighted(2.0), True),
        (Weighted(2.0).call, True),
        (counts, False),
        (remembers, False),
        (draws, False),
        (in_place, False),
        (says, False),
        (calls_another, False),
        (counted(), False),
        (moved(), False),
        (Weighted(2.0, keeps=[]), False),
        (Averages(2.0), False),
        (object(), False),
    ],
)
def test_pure(loss, expected):
    assert is_pure(loss) is expected


def test_a_variable_of_the_framework():
    if keras.backend.backend() == "tensorflow":
        import tensorflow

        assert not is_pure(made(tensorflow.Variable(1.0)))
    elif keras.backend.backend() == "torch":
        import torch

        assert is_pure(made(torch.ones(2)))
        assert not is_pure(made(torch.ones(2, requires_grad=True)))
