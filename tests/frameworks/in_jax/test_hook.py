"""The hook for JAX: numbers, updates, donated buffers, and trainings of Flax and Optax."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tocsin.evaluation import check
from tocsin.model import RuleStatus, TensorSummary
from tocsin.tensors import INDEX, LocalStorage, read_index, summarize
from tocsin.watch import to_watch
from tocsin_hooks.jax import JaxHook, leaves
from tocsin_hooks.memory import MOST_SAMPLED

COUNTS = ("size", "nan", "posinf", "neginf", "zeros")
FIELDS = (*COUNTS, "min", "max", "mean", "abs_mean", "variance", "l1", "l2")
STEPS = 60
CHANGES = to_watch({"rules": ["UnchangedTensor", "WeightUpdateRatio"]})
RANDOM = np.random.default_rng(0)
VALUES = {
    "normal": RANDOM.normal(size=(300, 7)).astype(np.float32),
    "tiny": (RANDOM.normal(size=1000) * 1e-30).astype(np.float32),
    "huge": (RANDOM.normal(size=1000) * 1e37).astype(np.float32),
    "offset": (RANDOM.normal(size=5000) + 1000).astype(np.float32),
    "not finite": np.array([1, np.nan, np.inf, -np.inf, -np.inf, 0, -2], np.float32),
    "nothing finite": np.array([np.nan, np.inf], np.float32),
    "zeros": np.zeros((3, 4), np.float32),
    "half": np.array([1, 2, 3], np.float16),
}


def summaries(run: Path) -> dict[tuple[int, str], TensorSummary]:
    storage = LocalStorage(run)
    files = [read_index(storage, found) for found in storage.list(INDEX)]
    return {(file.step, entry.name): entry.summary for file in files for entry in file.entries}


def saved(
    run: Path, *steps: dict[str, Any], **options: Any
) -> dict[tuple[int, str], TensorSummary]:
    hook = JaxHook(run, save_interval=1, max_overhead=None, **options)
    for gradients in steps:
        hook.step(jnp.float32(0.5), gradients=gradients)
    hook.close()
    assert (hook.hook.stats.errors, hook.hook.stats.saved) == (0, len(steps))
    return summaries(run)


def test_the_numbers_are_those_of_numpy(tmp_path: Path) -> None:
    found = saved(tmp_path, {name: jnp.asarray(value) for name, value in VALUES.items()})
    for name, value in VALUES.items():
        expected, summary = summarize(value), found[0, f"gradient/{name}"]
        for field in FIELDS:
            ours, theirs = getattr(summary, field), getattr(expected, field)
            assert ours == (theirs if theirs is None else pytest.approx(theirs, rel=1e-4)), (
                name,
                field,
            )


def test_only_numbers_come_to_the_host(tmp_path: Path) -> None:
    saved(tmp_path, {"w": jnp.ones((64, 64), jnp.bfloat16)})
    (found,) = LocalStorage(tmp_path).list(INDEX)
    entries = {entry.name: entry for entry in read_index(LocalStorage(tmp_path), found).entries}
    assert entries["gradient/w"].start is None
    assert entries["gradient/w"].dtype == "bfloat16"
    assert entries["loss"].start is not None


@pytest.mark.parametrize("size", [100, 100_000], ids=["whole", "a sample"])
def test_updates_since_the_last_save(tmp_path: Path, size: int) -> None:
    before = RANDOM.normal(size=size).astype(np.float32)
    after = before + RANDOM.normal(size=size).astype(np.float32) / 10
    hook = JaxHook(tmp_path, CHANGES, save_interval=1, max_overhead=None)
    for value in (before, before, after):
        hook.step(1.0, params={"w": jnp.asarray(value)})
    hook.close()
    found = summaries(tmp_path)
    first, same, moved = (found[step, "w"] for step in range(3))
    assert (first.update_l1, same.update_l1) == (None, 0.0)
    assert moved.update_l2 == pytest.approx(float(np.linalg.norm(after - before)), rel=0.05)
    if size > MOST_SAMPLED:  # then a sample that is the same does not say that all is
        assert first.fingerprint == same.fingerprint
        assert first.fingerprint != moved.fingerprint


def test_two_changed_signs_are_a_change(tmp_path: Path) -> None:
    value = np.ones(40_000, np.float32)
    other = value.copy()
    other[[1, 2]] = -1.0
    hook = JaxHook(tmp_path, CHANGES, save_interval=1, max_overhead=None)
    for each in (value, other):
        hook.step(1.0, params={"w": jnp.asarray(each)})
    hook.close()
    found = summaries(tmp_path)
    assert found[0, "w"].fingerprint != found[1, "w"].fingerprint


def test_a_call_within_jit_is_logged_and_the_training_goes_on(tmp_path: Path) -> None:
    hook = JaxHook(tmp_path, save_interval=1)

    @jax.jit
    def step(x: jax.Array) -> jax.Array:
        hook.step(x.sum(), gradients={"x": x})
        return x * 2

    assert float(step(jnp.ones(3)).sum()) == 6.0
    hook.close()
    assert hook.hook.stats.errors > 0


class Net(nn.Module):
    layers: int
    activation: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(self.layers):
            x = self.activation(nn.Dense(32)(x))
        return nn.Dense(10)(x)


def trained(run: Path, *, layers: int, activation: Any) -> dict[str, RuleStatus]:
    """How the recommended rules judge a training with Flax and Optax, whose buffers are donated."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    net = Net(layers, activation)
    optimizer = optax.adam(3e-3)
    params = net.init(jax.random.key(0), images[:1])
    state = optimizer.init(params)

    @partial(jax.jit, donate_argnums=(0, 1))
    def train_step(params: Any, state: Any, x: jax.Array, y: jax.Array) -> Any:
        def loss_of(params: Any) -> jax.Array:
            logits = net.apply(params, x)
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        loss, gradients = jax.value_and_grad(loss_of)(params)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss, gradients

    hook = JaxHook(run, save_interval=1, max_overhead=None)
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        batch = random.choice(len(images), 64)
        params, state, loss, gradients = train_step(params, state, images[batch], labels[batch])
        hook.step(loss, gradients=gradients, params=params)
    hook.close()
    assert (hook.hook.stats.errors, hook.hook.stats.saved) == (0, STEPS)
    return {name: record.status for name, record in check(LocalStorage(run))[0].rules.items()}


def test_a_healthy_training_of_flax_and_optax(tmp_path: Path) -> None:
    rules = trained(tmp_path, layers=2, activation=nn.relu)
    fired = {name for name, status in rules.items() if status is RuleStatus.ISSUES_FOUND}
    assert fired == set()
    assert rules["WeightUpdateRatio"] is not RuleStatus.NOT_APPLICABLE
    judged = {"VanishingGradient", "GradientExplosion", "ExplodingTensor"}
    assert {rules[name] for name in judged} == {RuleStatus.NO_ISSUES_FOUND}


def test_gradients_that_vanish(tmp_path: Path) -> None:
    rules = trained(tmp_path, layers=12, activation=nn.sigmoid)
    assert rules["VanishingGradient"] is RuleStatus.ISSUES_FOUND


def test_leaves_have_the_names_of_their_paths() -> None:
    tree = {"params": {"Dense_0": {"kernel": jnp.ones(2), "name": "x", "none": None}}}
    assert [name for name, _ in leaves(tree)] == ["params/Dense_0/kernel"]
    assert [name for name, _ in leaves([{"weight": np.ones(2)}])] == ["0/weight"]
